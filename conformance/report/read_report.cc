#include "conformance/report/read_report.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <vector>

#include "reference/base/error.h"
#include "reference/base/special_values.h"
#include "reference/base/text.h"

namespace bdlm {
namespace {

constexpr int64_t lowest = std::numeric_limits<int64_t>::min();
constexpr int64_t highest = std::numeric_limits<int64_t>::max();

/// The member of that name; keys of a report have no dots.
template <class Value>
Value named(const JsonView& object, const char* key, Value last) {
  const JsonView at = get(object, key);
  const std::string text = as_string(at);
  std::vector<std::string> known;
  for (int i = 0; i <= static_cast<int>(last); ++i) {
    const auto value = static_cast<Value>(i);
    if (text == name(value)) {
      return value;
    }
    known.push_back(join("'", name(value), "'"));
  }
  throw InputError(join(place(at), " is '", printable(text, 60), "'; known are ", listed(known)));
}

double number(const JsonView& at) {
  if (at.value->is_string()) {
    const std::string text = as_string(at);
    require(text == "nan" || text == "inf" || text == "-inf", place(at), " is '",
            printable(text, 60), "'; allowed is a number, 'nan', 'inf' or '-inf'");
    return text == "nan"   ? std::numeric_limits<double>::quiet_NaN()
           : text == "inf" ? infinity
                           : -infinity;
  }
  return as_double(at, -infinity, infinity);
}

Figure figure(const JsonView& at) {
  if (at.value->is_number_integer()) {
    return as_int(at, lowest, highest);
  }
  if (at.value->is_string()) {
    const std::string text = as_string(at);
    if (text != "nan" && text != "inf" && text != "-inf") {
      return text;
    }
  }
  return number(at);
}

bool contains(const std::vector<std::string>& names, const std::string& key) {
  return std::find(names.begin(), names.end(), key) != names.end();
}

/// The members that are not among `others`; `reserved` names are those of no figure.
Figures figures(const JsonView& object, const std::vector<std::string>& others,
                const std::vector<std::string>& reserved = {}) {
  Figures out;
  for (const auto& [key, value] : members(object)) {
    if (!contains(others, key)) {
      require(!contains(reserved, key), place(value), " cannot be the name of a figure");
      out.emplace_back(key, figure(value));
    }
  }
  return out;
}

TensorResult read_tensor(const JsonView& json) {
  TensorResult out;
  out.tensor = get_string(json, "tensor");
  out.verdict = named(json, "verdict", Verdict::crash);
  out.reason = named(json, "reason", Reason::null_entry);
  out.detail = get_string_or(json, "detail", "");
  out.figures = figures(json, {"tensor", "verdict", "reason", "detail"},
                        {"seconds", "tensors", "known_failure", "reproduce"});
  return out;
}

}  // namespace

CaseResult read_case(const JsonView& json) {
  CaseResult out;
  out.id = get_string(json, "id");
  out.tier = get_string(json, "tier");
  out.verdict = named(json, "verdict", Verdict::crash);
  out.reason = named(json, "reason", Reason::null_entry);
  out.detail = get_string_or(json, "detail", "");
  if (const auto seconds = find(json, "seconds")) {
    out.seconds = number(*seconds);
  }
  if (find(json, "tensors")) {
    for (const JsonView& tensor : get_array(json, "tensors")) {
      out.tensors.push_back(read_tensor(tensor));
    }
  }
  out.figures = figures(json, {"id", "tier", "verdict", "reason", "detail", "seconds", "tensors",
                               "reproduce", "known_failure"});
  return out;
}

CaseResult read_case_line(std::string_view line, const std::string& source) {
  const Json document = parse_json(line, source);
  return read_case(view(document, source));
}

}  // namespace bdlm
