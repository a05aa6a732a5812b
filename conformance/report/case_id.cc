#include "conformance/report/case_id.h"

#include <algorithm>
#include <array>
#include <tuple>
#include <utility>

#include "reference/base/error.h"

namespace bdlm {
namespace {

// Parts with a place of their own; the others stand at the places named below, sorted by key.
constexpr std::array<std::string_view, 6> first_keys{"P", "L", "M", "w", "h", "d"};
constexpr int64_t other_numbers = 10;
constexpr int64_t dtype_place = 20;
constexpr int64_t data_place = 21;
constexpr int64_t other_words = 22;
constexpr int64_t seed_place = 30;

bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

bool is_word_character(char c) {
  return is_letter(c) || (c >= '0' && c <= '9') || c == '_' || c == '.';
}

void check_key(std::string_view key) {
  require(!key.empty() && std::all_of(key.begin(), key.end(), is_letter), "case id: key '", key,
          "' must be of letters");
}

void check_word(std::string_view what, std::string_view word) {
  require(!word.empty() && is_letter(word.front()) &&
              std::all_of(word.begin(), word.end(), is_word_character),
          "case id: ", what, " '", word,
          "' must begin with a letter and hold only letters, digits, '_' and '.'");
}

int64_t place_of_number(std::string_view key) {
  if (key == "s") {
    return seed_place;
  }
  const auto* found = std::find(first_keys.begin(), first_keys.end(), key);
  return found == first_keys.end() ? other_numbers : found - first_keys.begin();
}

int64_t place_of_word(std::string_view key) {
  return key == "dtype" ? dtype_place : key == "data" ? data_place : other_words;
}

// Whether `c` belongs to the set between the brackets of a pattern.
bool in_set(std::string_view set, char c) {
  const bool negated = !set.empty() && set.front() == '!';
  if (negated) {
    set.remove_prefix(1);
  }
  bool found = false;
  for (size_t i = 0; i < set.size(); ++i) {
    if (i + 2 < set.size() && set[i + 1] == '-') {
      found = found || (set[i] <= c && c <= set[i + 2]);
      i += 2;
    } else {
      found = found || set[i] == c;
    }
  }
  return found != negated;
}

// Position of the ']' that ends the set whose '[' stands at `open`. A ']' that comes first belongs
// to the set.
size_t end_of_set(std::string_view pattern, size_t open) {
  size_t first = open + 1;
  if (first < pattern.size() && pattern[first] == '!') {
    ++first;
  }
  const size_t close = pattern.find(']', first + 1);
  require(close != std::string_view::npos, "pattern '", pattern, "': the '[' at position ", open,
          " has no ']'");
  return close;
}

}  // namespace

CaseId::CaseId(std::string_view subject) : subject_(subject) {
  check_word("subject", subject);
}

CaseId& CaseId::add(Part part) {
  for (const Part& other : parts_) {
    require(other.key != part.key && other.text != part.text, "case id ", str(), ": part '",
            part.text, "' (", part.key, ") is there already as '", other.text, "' (", other.key,
            ")");
  }
  const auto after = std::find_if(parts_.begin(), parts_.end(), [&part](const Part& other) {
    return std::tie(part.place, part.key) < std::tie(other.place, other.key);
  });
  parts_.insert(after, std::move(part));
  return *this;
}

CaseId& CaseId::number(std::string_view key, int64_t value) {
  check_key(key);
  require(value >= 0, "case id: ", key, " is ", value, ", must not be negative");
  return add({place_of_number(key), std::string(key), join(key, value)});
}

CaseId& CaseId::heads(int64_t query_heads, int64_t kv_heads) {
  require(query_heads >= 1 && kv_heads >= 1, "case id: heads are ", query_heads, " over ", kv_heads,
          ", must be positive");
  return add({place_of_number("h"), "h", join("h", query_heads, "k", kv_heads)});
}

CaseId& CaseId::word(std::string_view key, std::string_view value) {
  check_key(key);
  check_word(key, value);
  return add({place_of_word(key), std::string(key), std::string(value)});
}

std::string CaseId::str() const {
  std::string id = subject_;
  for (const Part& part : parts_) {
    id += '-';
    id += part.text;
  }
  return id;
}

bool glob_match(std::string_view pattern, std::string_view text) {
  // Every '[' is checked, also those that the walk below does not reach.
  for (size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] == '[') {
      i = end_of_set(pattern, i);
    }
  }
  // Only the last '*' is ever taken up again: what stands before it has matched as early as it can.
  size_t p = 0;
  size_t t = 0;
  size_t star = std::string_view::npos;
  size_t star_text = 0;
  while (t < text.size()) {
    size_t next = p + 1;
    bool matches = false;
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      star_text = t;
      continue;
    }
    if (p < pattern.size() && pattern[p] == '[') {
      const size_t close = end_of_set(pattern, p);
      matches = in_set(pattern.substr(p + 1, close - p - 1), text[t]);
      next = close + 1;
    } else if (p < pattern.size()) {
      matches = pattern[p] == '?' || pattern[p] == text[t];
    }
    if (matches) {
      p = next;
      ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++star_text;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') {
    ++p;
  }
  return p == pattern.size();
}

std::string reproducer_line(std::string_view id, std::string_view tier, std::string_view options) {
  // What lies in files has commands of its own: their names stand in place of a tier.
  if (tier == "files") {
    return join("bdlm verify --case ", id, options.empty() ? "" : " ", options);
  }
  if (tier == "compare" || tier == "plan verify") {
    return join("bdlm ", tier, ' ', id);
  }
  return join("bdlm verify --case ", id, " --tier ", tier, options.empty() ? "" : " ", options);
}

}  // namespace bdlm
