#include "conformance/report/table.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <ostream>
#include <utility>

#include "conformance/report/case_id.h"
#include "conformance/report/utf8.h"
#include "reference/base/error.h"
#include "reference/base/text.h"

namespace bdlm {
namespace {

constexpr int64_t tier_width = 4;
constexpr int64_t tensor_width = 8;

std::string spaces(const std::string& text, int64_t width) {
  return std::string(static_cast<size_t>(std::max<int64_t>(0, width - utf8_columns(text))), ' ');
}

std::string left(const std::string& text, int64_t width) {
  return text + spaces(text, width);
}

std::string right(const std::string& text, int64_t width) {
  return spaces(text, width) + text;
}

// Three significant digits: a table is for the eye, the exact value stands in the JSON report.
std::string shown(double value) {
  if (std::isnan(value)) {
    return "nan";
  }
  if (std::isinf(value)) {
    return value > 0 ? "inf" : "-inf";
  }
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.3g", value);
  return text.data();
}

std::string shown(const Figure* figure) {
  if (figure == nullptr) {
    return "-";
  }
  if (const auto* value = std::get_if<double>(figure)) {
    return shown(*value);
  }
  if (const auto* value = std::get_if<int64_t>(figure)) {
    return std::to_string(*value);
  }
  return printable(std::get<std::string>(*figure));
}

}  // namespace

std::vector<Column> contract_columns() {
  return {{"err_over_h", "err/H", "largest error over the bound of its element; above 1 is wrong"},
          {"max_z", "max z", "largest error in units of the deviation predicted for its element"},
          {"rms_z", "RMS z", "root mean square of these; near 1 is the declared precision"},
          {"gain_minus_1", "gain-1",
           "relative factor between the result and the right one; 0.01 is \"1 % too large\""},
          {"lse", "LSE", "probability mass gained (or lost, below 0) by a wrong log-sum-exp"}};
}

Table::Table(std::ostream& out, std::vector<Column> columns, int64_t id_width, bool strict)
    : out_(out), columns_(std::move(columns)), id_width_(id_width), strict_(strict) {
  for (Column& column : columns_) {
    column.width = std::max(column.width, utf8_columns(column.title));
  }
}

void Table::head() {
  const auto legend = [this](const std::string& title, const std::string& meaning) {
    out_ << "# " << left(title, 8) << ' ' << meaning << '\n';
  };
  legend("tier", "the kind of check");
  legend("tensor", "what was compared; - is the case as a whole");
  for (const Column& column : columns_) {
    legend(column.title, column.meaning);
  }
  legend("verdict", "what it comes to, and which limit decided");
  out_ << left("id", id_width_) << ' ' << left("tier", tier_width) << ' '
       << left("tensor", tensor_width);
  for (const Column& column : columns_) {
    out_ << ' ' << right(column.title, column.width);
  }
  out_ << "  verdict\n" << std::flush;
}

void Table::line(const std::string& id, const std::string& tier, const std::string& tensor,
                 const Figures& figures, Verdict verdict, Reason reason,
                 const std::string& detail) {
  out_ << left(printable(id), id_width_) << ' ' << left(printable(tier), tier_width) << ' '
       << left(printable(tensor), tensor_width);
  for (const Column& column : columns_) {
    out_ << ' ' << right(shown(find_figure(figures, column.figure)), column.width);
  }
  out_ << "  " << name(verdict);
  if (reason != Reason::none) {
    out_ << ' ' << name(reason);
  }
  if (!detail.empty()) {
    out_ << "  " << printable(detail, 400);
  }
  out_ << '\n';
}

void Table::row(const CaseResult& result) {
  // The case itself, unless its tensors say it all.
  const bool worse_than_tensors = std::all_of(
      result.tensors.begin(), result.tensors.end(),
      [&result](const TensorResult& tensor) { return tensor.verdict < result.verdict; });
  if (worse_than_tensors || !result.figures.empty()) {
    line(result.id, result.tier, "-", result.figures, result.verdict, result.reason, result.detail);
  }
  for (const TensorResult& tensor : result.tensors) {
    line(result.id, result.tier, tensor.tensor, tensor.figures, tensor.verdict, tensor.reason,
         tensor.detail);
  }
  if (result.known.state != KnownState::unlisted) {
    out_ << "  " << printable(known_remark(result.known), 400) << '\n';
  }
  if (fails_run(result, strict_)) {
    out_ << "  rerun: " << reproducer_line(result.id, result.tier, result.options) << '\n';
  }
  out_ << std::flush;
}

void Table::foot(const Summary& summary) {
  out_ << summary.cases() << " cases:";
  for (const Verdict verdict : Summary::order) {
    if (summary[verdict] > 0 || verdict == Verdict::pass || verdict == Verdict::fail) {
      out_ << ' ' << summary[verdict] << ' ' << name(verdict);
    }
  }
  out_ << '\n' << std::flush;
}

}  // namespace bdlm
