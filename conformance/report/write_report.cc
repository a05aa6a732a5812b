#include "conformance/report/write_report.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <ostream>

#include "conformance/report/case_id.h"
#include "conformance/report/utf8.h"
#include "reference/base/error.h"
#include "reference/base/text.h"

namespace bdlm {
namespace {

using OrderedJson = nlohmann::ordered_json;

OrderedJson json_number(double value) {
  if (std::isnan(value)) {
    return "nan";
  }
  if (std::isinf(value)) {
    return value > 0 ? "inf" : "-inf";
  }
  return value;
}

OrderedJson json_figure(const Figure& figure) {
  if (const auto* value = std::get_if<double>(&figure)) {
    return json_number(*value);
  }
  if (const auto* value = std::get_if<int64_t>(&figure)) {
    return *value;
  }
  return std::get<std::string>(figure);
}

void add_figures(OrderedJson& object, const Figures& figures) {
  for (const auto& [figure_name, figure] : figures) {
    constexpr std::array<std::string_view, 5> later{"seconds", "detail", "tensors", "known_failure",
                                                    "reproduce"};
    const bool taken = object.contains(figure_name) ||
                       std::find(later.begin(), later.end(), figure_name) != later.end();
    require<LogicError>(!taken, "report: a figure cannot be named '", figure_name,
                        "': the name is taken");
    object[figure_name] = json_figure(figure);
  }
}

OrderedJson json_tensor(const TensorResult& result) {
  OrderedJson object = {{"tensor", result.tensor},
                        {"verdict", name(result.verdict)},
                        {"reason", name(result.reason)}};
  add_figures(object, result.figures);
  if (!result.detail.empty()) {
    object["detail"] = result.detail;
  }
  return object;
}

OrderedJson json_case(const CaseResult& result) {
  OrderedJson object = {{"id", result.id},
                        {"tier", result.tier},
                        {"verdict", name(result.verdict)},
                        {"reason", name(result.reason)}};
  add_figures(object, result.figures);
  if (result.seconds) {
    object["seconds"] = json_number(*result.seconds);
  }
  if (!result.detail.empty()) {
    object["detail"] = result.detail;
  }
  if (!result.tensors.empty()) {
    object["tensors"] = OrderedJson::array();
    for (const TensorResult& tensor : result.tensors) {
      object["tensors"].push_back(json_tensor(tensor));
    }
  }
  if (result.known.state != KnownState::unlisted) {
    object["known_failure"] = {{"state", name(result.known.state)},
                               {"reason", result.known.reason},
                               {"expires", result.known.expires}};
  }
  if (is_failure(result.verdict, result.reason, true)) {
    object["reproduce"] = reproducer_line(result.id, result.tier, result.options);
  }
  return object;
}

std::string dumped(const OrderedJson& json, int indent) {
  return json.dump(indent, ' ', false, OrderedJson::error_handler_t::replace) + '\n';
}

// What JUnit distinguishes.
enum class Outcome : uint8_t { passed, failure, error, skipped };

Outcome outcome(const CaseResult& result, bool strict) {
  if (result.known.state != KnownState::unlisted) {
    return fails_run(result, strict) ? Outcome::failure : Outcome::skipped;
  }
  if (result.verdict == Verdict::timeout || result.verdict == Verdict::crash) {
    return Outcome::error;
  }
  if (is_failure(result.verdict, result.reason, strict)) {
    return Outcome::failure;
  }
  return result.verdict == Verdict::pass || result.verdict == Verdict::marginal ? Outcome::passed
                                                                                : Outcome::skipped;
}

// "FAIL bound: dK: ...", as far as the parts are there.
std::string junit_message(const CaseResult& result) {
  std::string message(name(result.verdict));
  if (result.reason != Reason::none) {
    message += join(' ', name(result.reason));
  }
  if (result.known.state != KnownState::unlisted) {
    message += join(" (", known_remark(result.known), ")");
  }
  return result.detail.empty() ? message : join(message, ": ", result.detail);
}

std::string junit_case(const CaseResult& result, bool strict) {
  std::string out = join("    <testcase classname=\"", xml_escaped(result.tier), "\" name=\"",
                         xml_escaped(result.id), "\"");
  if (result.seconds && std::isfinite(*result.seconds)) {
    std::array<char, 64> time{};
    std::snprintf(time.data(), time.size(), "%.3f", *result.seconds);
    out += join(" time=\"", time.data(), "\"");
  }
  if (result.verdict == Verdict::pass && outcome(result, strict) == Outcome::passed) {
    return out + "/>\n";
  }
  out += ">\n";
  const std::string message = xml_escaped(junit_message(result));
  const std::string body = xml_escaped(reproducer_line(result.id, result.tier, result.options));
  const std::string type = xml_escaped(
      join(name(result.verdict), result.reason == Reason::none ? "" : ".", name(result.reason)));
  switch (outcome(result, strict)) {
    case Outcome::passed:
      out += join("      <system-out>", message, "</system-out>\n");
      break;
    case Outcome::failure:
      out += join("      <failure type=\"", type, "\" message=\"", message, "\">", body,
                  "</failure>\n");
      break;
    case Outcome::error:
      out +=
          join("      <error type=\"", type, "\" message=\"", message, "\">", body, "</error>\n");
      break;
    case Outcome::skipped:
      out += join("      <skipped message=\"", message, "\"/>\n");
      break;
  }
  return out + "    </testcase>\n";
}

}  // namespace

std::string json_report(const RunInfo& run, const std::vector<CaseResult>& results) {
  OrderedJson document = {{"format", "bdlm-report-1"}, {"commit", run.commit},
                          {"device", run.device},      {"versions", OrderedJson::object()},
                          {"contract", run.contract},  {"seed", run.seed},
                          {"summary", nullptr},        {"cases", OrderedJson::array()}};
  for (const auto& [what, version] : run.versions) {
    document["versions"][what] = version;
  }
  const Summary summary = summarize(results);
  for (const Verdict verdict : Summary::order) {
    document["summary"][std::string(summary_key(verdict))] = summary[verdict];
  }
  for (const CaseResult& result : results) {
    document["cases"].push_back(json_case(result));
  }
  return dumped(document, 1);
}

std::string json_line(const CaseResult& result) {
  return dumped(json_case(result), -1);
}

std::string junit_report(const std::vector<CaseResult>& results, bool strict) {
  std::array<int64_t, 4> counts{};
  for (const CaseResult& result : results) {
    ++counts[static_cast<size_t>(outcome(result, strict))];
  }
  const auto count = [&counts](Outcome which) { return counts[static_cast<size_t>(which)]; };
  const std::string totals =
      join("tests=\"", results.size(), "\" failures=\"", count(Outcome::failure), "\" errors=\"",
           count(Outcome::error), "\"");
  std::string out = join("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"bdlm\" ",
                         totals, ">\n  <testsuite name=\"bdlm verify\" ", totals, " skipped=\"",
                         count(Outcome::skipped), "\">\n");
  for (const CaseResult& result : results) {
    out += junit_case(result, strict);
  }
  return out + "  </testsuite>\n</testsuites>\n";
}

ReportSink::ReportSink(const std::string& path, std::ostream& standard_output) {
  if (is_standard_output(path)) {
    stream_ = &standard_output;
  } else {
    file_ = std::make_unique<OutputFile>(path);
  }
}

void ReportSink::write(std::string_view text) {
  if (file_) {
    file_->write(text);
    return;
  }
  *stream_ << text << std::flush;
  require<FileError>(stream_->good(), "standard output: cannot write");
}

void ReportSink::close() {
  if (file_) {
    file_->commit();
  }
}

std::optional<ReportSink> open_report(const std::string& path, std::ostream& standard_output) {
  return path.empty() ? std::nullopt : std::make_optional<ReportSink>(path, standard_output);
}

bool is_standard_output(const std::string& path) {
  return path == "-" || path == "/dev/stdout" || path == "/dev/fd/1" || path == "/proc/self/fd/1";
}

void check_report_paths(const std::vector<std::string>& paths) {
  std::vector<std::filesystem::path> places;
  for (const std::string& path : paths) {
    if (path.empty()) {
      continue;
    }
    std::error_code ignored;  // a path that cannot be followed fails where it is opened
    const std::filesystem::path place =
        is_standard_output(path)
            ? std::filesystem::path("-")
            : std::filesystem::weakly_canonical(std::filesystem::absolute(path, ignored), ignored);
    require(std::find(places.begin(), places.end(), place) == places.end(), "two reports go to '",
            printable(path), "'; each needs a place of its own");
    // Devices and pipes take any number.
    if (is_standard_output(path) || !std::filesystem::is_other(place, ignored)) {
      places.push_back(place);
    }
  }
}

}  // namespace bdlm
