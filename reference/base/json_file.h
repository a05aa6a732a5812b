#pragma once
// JSON from files that nobody vouches for: bounded in size and depth, strict, with errors that say
// where.

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace bdlm {

using Json = nlohmann::json;

struct JsonLimits {
  /// Largest text, in bytes.
  int64_t bytes = int64_t{64} << 20;
  /// Deepest nesting of arrays and objects; a bare scalar has depth 0.
  int64_t depth = 64;
};

/// Parses strict JSON (RFC 8259). `source` names the text in errors. Throws FileError, one line
/// with source, place and reason, on malformed or truncated text, anything after the value, text
/// above the limits, a key that occurs twice in one object, NaN or Infinity, a number too large for
/// a double, and invalid UTF-8.
Json parse_json(std::string_view text, const std::string& source, const JsonLimits& limits = {});

/// Reads and parses a whole file; pipes and devices are read no further than the size limit. Throws
/// FileError as parse_json does, and with the system's reason if the file cannot be read.
Json read_json_file(const std::string& path, const JsonLimits& limits = {});

/// What a value looks like in a message: the start of its text; of arrays and objects, their size.
std::string shown(const Json& value);

/// A value inside a document, with the names that errors need. Does not own the value.
struct JsonView {
  const Json* value = nullptr;
  /// The file.
  std::string source;
  /// Where the value is: "a.b[3]"; empty for the whole document.
  std::string path;
};

inline JsonView view(const Json& document, std::string source) {
  return {&document, std::move(source), ""};
}

/// "FILE: key 'a.b'", as errors begin.
std::string place(const JsonView& at);

// The getters take a dotted key path below `object`, "a.b". All throw InputError, which names file,
// key path, the value found and what is allowed, on a missing key or a value of another type or
// outside the range. Integers must be written as such: 3, not 3.0.

/// The value at `key`, or nothing if a key on the way is missing or null.
std::optional<JsonView> find(const JsonView& object, std::string_view key);
JsonView get(const JsonView& object, std::string_view key);
/// An integer of [lowest, highest].
int64_t get_int(const JsonView& object, std::string_view key, int64_t lowest, int64_t highest);
/// A finite number of [lowest, highest].
double get_double(const JsonView& object, std::string_view key, double lowest, double highest);
bool get_bool(const JsonView& object, std::string_view key);
std::string get_string(const JsonView& object, std::string_view key);
JsonView get_object(const JsonView& object, std::string_view key);
/// The elements of an array.
std::vector<JsonView> get_array(const JsonView& object, std::string_view key);

// The same for a key that may be missing or null: then `fallback`.
int64_t get_int_or(const JsonView& object, std::string_view key, int64_t lowest, int64_t highest,
                   int64_t fallback);
double get_double_or(const JsonView& object, std::string_view key, double lowest, double highest,
                     double fallback);
bool get_bool_or(const JsonView& object, std::string_view key, bool fallback);
std::string get_string_or(const JsonView& object, std::string_view key, std::string fallback);

// The value itself, for elements of arrays and members of objects.
int64_t as_int(const JsonView& at, int64_t lowest, int64_t highest);
double as_double(const JsonView& at, double lowest, double highest);
bool as_bool(const JsonView& at);
std::string as_string(const JsonView& at);
std::vector<JsonView> as_array(const JsonView& at);
/// The members of an object with their keys, which may contain dots.
std::vector<std::pair<std::string, JsonView>> members(const JsonView& at);

/// Throws InputError if the object has a key that is not among `known`, which it lists.
void reject_unknown_keys(const JsonView& object, const std::vector<std::string>& known);

}  // namespace bdlm
