#include "reference/base/json_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>

#include "reference/base/error.h"
#include "reference/base/text.h"

namespace bdlm {
namespace {

/// Builds the document event by event, so that depth and duplicate keys are checked before anything
/// is stored.
class Builder final : public nlohmann::json_sax<Json> {
 public:
  Builder(const std::string& source, int64_t depth) : source_(source), depth_(depth) {}

  Json take() { return std::move(root_); }

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(number_integer_t value) override { return add(value); }
  bool number_unsigned(number_unsigned_t value) override { return add(value); }
  bool number_float(number_float_t value, const string_t&) override { return add(value); }
  bool string(string_t& value) override { return add(std::move(value)); }
  bool binary(binary_t&) override { return false; }
  bool start_object(size_t) override { return open(Json::object()); }
  bool end_object() override { return close(); }
  bool start_array(size_t) override { return open(Json::array()); }
  bool end_array() override { return close(); }

  bool key(string_t& key) override {
    Level& level = levels_.back();
    // The path is built for an error alone: for every key it would take time that grows with the
    // square of the text, where a long key holds many short ones.
    if (level.value->contains(key)) {
      throw FileError(join(source_, ": key '", printable(path() + key), "' occurs twice"));
    }
    level.key = std::move(key);
    return true;
  }

  bool parse_error(size_t position, const std::string&,
                   const nlohmann::detail::exception& error) override {
    // The parser's text is "[tag] parse error at line 3, column 7: ..."; only the tag is dropped. A
    // number out of range comes without its place.
    std::string text = error.what();
    const size_t tag = text.find("] ");
    text = tag == std::string::npos ? text : text.substr(tag + 2);
    const bool placed = text.find(" at line ") != std::string::npos;
    throw FileError(join(source_, ": not valid JSON: ", printable(text, 240),
                         placed ? "" : join(" at byte ", position)));
  }

 private:
  struct Level {
    Json* value;
    std::string key;
  };

  std::string path() const {
    std::string out;
    for (size_t i = 0; i + 1 < levels_.size(); ++i) {
      out += levels_[i].value->is_array() ? join('[', levels_[i].value->size() - 1, "].")
                                          : levels_[i].key + ".";
    }
    return out;
  }

  Json* put(Json value) {
    if (levels_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    Level& level = levels_.back();
    if (level.value->is_array()) {
      level.value->push_back(std::move(value));
      return &level.value->back();
    }
    Json& slot = (*level.value)[level.key];
    slot = std::move(value);
    return &slot;
  }

  bool add(Json value) {
    put(std::move(value));
    return true;
  }

  bool open(Json value) {
    require<FileError>(static_cast<int64_t>(levels_.size()) < depth_, source_,
                       ": nested deeper than ", depth_, " levels");
    // Pointers to the levels above stay valid: a container only grows once its last child is
    // closed.
    levels_.push_back({put(std::move(value)), {}});
    return true;
  }

  bool close() {
    levels_.pop_back();
    return true;
  }

  const std::string& source_;
  int64_t depth_;
  Json root_;
  std::vector<Level> levels_;
};

std::string dotted(const std::string& path, std::string_view key) {
  return path.empty() ? std::string(key) : join(path, '.', key);
}

[[noreturn]] void wrong(const JsonView& at, const std::string& allowed) {
  throw InputError(join(place(at), " is ", shown(*at.value), "; allowed is ", allowed));
}

/// What a double looks like in a message: the shortest text that reads back as the same value.
std::string number_text(double value) {
  return Json(value).dump();
}

}  // namespace

Json parse_json(std::string_view text, const std::string& source, const JsonLimits& limits) {
  require<FileError>(static_cast<int64_t>(text.size()) <= limits.bytes, source, ": larger than ",
                     limits.bytes, " bytes, the limit for JSON");
  require<FileError>(!text.empty(), source, ": empty, where JSON is expected");
  // The parser would take a zero byte for the end of the text.
  const size_t zero = text.find('\0');
  require<FileError>(zero == std::string_view::npos, source, ": not valid JSON: zero byte at byte ",
                     zero);
  Builder builder(source, limits.depth);
  Json::sax_parse(text.begin(), text.end(), &builder);
  return builder.take();
}

Json read_json_file(const std::string& path, const JsonLimits& limits) {
  const std::string source = printable(path, 400);
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  require<FileError>(file >= 0, source, ": cannot open: ", std::strerror(errno));
  std::string text;
  std::vector<char> chunk(size_t{1} << 16);
  ssize_t got = 0;
  while (static_cast<int64_t>(text.size()) <= limits.bytes) {
    got = ::read(file, chunk.data(), chunk.size());
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got <= 0) {
      break;
    }
    text.append(chunk.data(), static_cast<size_t>(got));
  }
  const int error = errno;
  ::close(file);
  require<FileError>(got >= 0, source, ": cannot read: ", std::strerror(error));
  return parse_json(text, source, limits);
}

std::string shown(const Json& value) {
  if (value.is_object() || value.is_array()) {
    return join(value.is_object() ? "an object" : "an array", " of ", value.size());
  }
  return printable(value.dump(), 60);
}

std::string place(const JsonView& at) {
  return at.path.empty() ? join(at.source, ": the document")
                         : join(at.source, ": key '", printable(at.path), "'");
}

std::optional<JsonView> find(const JsonView& object, std::string_view key) {
  JsonView at = object;
  while (true) {
    const size_t dot = key.find('.');
    const std::string step(key.substr(0, dot));
    if (!at.value->is_object()) {
      wrong(at, "an object");
    }
    const auto it = at.value->find(step);
    if (it == at.value->end() || it->is_null()) {
      return std::nullopt;
    }
    at = {&*it, at.source, dotted(at.path, step)};
    if (dot == std::string_view::npos) {
      return at;
    }
    key.remove_prefix(dot + 1);
  }
}

JsonView get(const JsonView& object, std::string_view key) {
  const std::optional<JsonView> at = find(object, key);
  require(at.has_value(), object.source, ": key '", printable(dotted(object.path, key)),
          "' is missing");
  return *at;
}

int64_t as_int(const JsonView& at, int64_t lowest, int64_t highest) {
  const std::string allowed = join("an integer from ", lowest, " to ", highest);
  if (!at.value->is_number_integer()) {
    wrong(at, allowed);
  }
  // Values above 2^63 - 1 are stored unsigned and must not wrap.
  if (at.value->is_number_unsigned() &&
      at.value->get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
    wrong(at, allowed);
  }
  const auto value = at.value->get<int64_t>();
  if (value < lowest || value > highest) {
    wrong(at, allowed);
  }
  return value;
}

double as_double(const JsonView& at, double lowest, double highest) {
  const auto allowed = [&] {
    return join("a number from ", number_text(lowest), " to ", number_text(highest));
  };
  if (!at.value->is_number()) {
    wrong(at, allowed());
  }
  const auto value = at.value->get<double>();
  if (!(value >= lowest && value <= highest)) {
    wrong(at, allowed());
  }
  return value;
}

bool as_bool(const JsonView& at) {
  if (!at.value->is_boolean()) {
    wrong(at, "true or false");
  }
  return at.value->get<bool>();
}

std::string as_string(const JsonView& at) {
  if (!at.value->is_string()) {
    wrong(at, "a string");
  }
  return at.value->get<std::string>();
}

std::vector<JsonView> as_array(const JsonView& at) {
  if (!at.value->is_array()) {
    wrong(at, "an array");
  }
  std::vector<JsonView> out;
  for (size_t i = 0; i < at.value->size(); ++i) {
    out.push_back({&(*at.value)[i], at.source, join(at.path, '[', i, ']')});
  }
  return out;
}

std::vector<std::pair<std::string, JsonView>> members(const JsonView& at) {
  if (!at.value->is_object()) {
    wrong(at, "an object");
  }
  std::vector<std::pair<std::string, JsonView>> out;
  for (auto it = at.value->begin(); it != at.value->end(); ++it) {
    out.push_back({it.key(), {&it.value(), at.source, dotted(at.path, it.key())}});
  }
  return out;
}

int64_t get_int(const JsonView& object, std::string_view key, int64_t lowest, int64_t highest) {
  return as_int(get(object, key), lowest, highest);
}

double get_double(const JsonView& object, std::string_view key, double lowest, double highest) {
  return as_double(get(object, key), lowest, highest);
}

bool get_bool(const JsonView& object, std::string_view key) {
  return as_bool(get(object, key));
}

std::string get_string(const JsonView& object, std::string_view key) {
  return as_string(get(object, key));
}

JsonView get_object(const JsonView& object, std::string_view key) {
  JsonView at = get(object, key);
  if (!at.value->is_object()) {
    wrong(at, "an object");
  }
  return at;
}

std::vector<JsonView> get_array(const JsonView& object, std::string_view key) {
  return as_array(get(object, key));
}

int64_t get_int_or(const JsonView& object, std::string_view key, int64_t lowest, int64_t highest,
                   int64_t fallback) {
  const auto at = find(object, key);
  return at ? as_int(*at, lowest, highest) : fallback;
}

double get_double_or(const JsonView& object, std::string_view key, double lowest, double highest,
                     double fallback) {
  const auto at = find(object, key);
  return at ? as_double(*at, lowest, highest) : fallback;
}

bool get_bool_or(const JsonView& object, std::string_view key, bool fallback) {
  const auto at = find(object, key);
  return at ? as_bool(*at) : fallback;
}

std::string get_string_or(const JsonView& object, std::string_view key, std::string fallback) {
  const auto at = find(object, key);
  return at ? as_string(*at) : std::move(fallback);
}

void reject_unknown_keys(const JsonView& object, const std::vector<std::string>& known) {
  for (const auto& [key, at] : members(object)) {
    require(std::find(known.begin(), known.end(), key) != known.end(), place(at),
            " is unknown; known are ", listed(known));
  }
}

}  // namespace bdlm
