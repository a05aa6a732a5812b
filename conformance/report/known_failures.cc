#include "conformance/report/known_failures.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "reference/base/error.h"
#include "reference/base/text.h"

namespace bdlm {
namespace {

bool is_id(const std::string& text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.';
  });
}

/// Whether the text is a day of the calendar as YYYY-MM-DD.
bool is_day(const std::string& text) {
  constexpr const char* form = "dddd-dd-dd";
  for (size_t i = 0; i < text.size(); ++i) {
    const bool digit = text[i] >= '0' && text[i] <= '9';
    if (i >= 10 || (form[i] == 'd' ? !digit : text[i] != '-')) {
      return false;
    }
  }
  if (text.size() != 10) {
    return false;
  }
  const auto part = [&](size_t begin, size_t count) {
    return static_cast<unsigned>(std::stoi(text.substr(begin, count)));
  };
  return std::chrono::year_month_day(std::chrono::year(static_cast<int>(part(0, 4))),
                                     std::chrono::month(part(5, 2)), std::chrono::day(part(8, 2)))
      .ok();
}

}  // namespace

KnownFailures parse_known_failures(const JsonView& json) {
  KnownFailures out;
  for (const auto& [id, entry] : members(json)) {
    require(is_id(id), place(entry), " is no case id; ids have letters, digits, '-', '_' and '.'");
    reject_unknown_keys(entry, {"reason", "expires"});
    KnownFailure known{get_string(entry, "reason"), get_string(entry, "expires")};
    require(!known.reason.empty(), place(get(entry, "reason")), " is empty; say why it fails");
    require(is_day(known.expires), place(get(entry, "expires")), " is '",
            printable(known.expires, 60), "'; allowed is a day, for instance 2027-03-31");
    out.emplace(id, std::move(known));
  }
  return out;
}

KnownFailures read_known_failures(const std::string& path) {
  const Json document = read_json_file(path);
  return parse_known_failures(view(document, printable(path, 400)));
}

void mark_known(CaseResult& result, const KnownFailures& list, const std::string& today) {
  const auto it = list.find(result.id);
  if (it == list.end()) {
    return;
  }
  const bool passed = result.verdict == Verdict::pass || result.verdict == Verdict::marginal;
  result.known.state = today > it->second.expires ? KnownState::expired
                       : passed                   ? KnownState::passed
                                                  : KnownState::known;
  result.known.reason = it->second.reason;
  result.known.expires = it->second.expires;
}

std::string today() {
  const std::chrono::year_month_day day(
      std::chrono::floor<std::chrono::days>(std::chrono::system_clock::now()));
  char text[32];
  std::snprintf(text, sizeof text, "%04d-%02u-%02u", static_cast<int>(day.year()),
                static_cast<unsigned>(day.month()), static_cast<unsigned>(day.day()));
  return text;
}

}  // namespace bdlm
