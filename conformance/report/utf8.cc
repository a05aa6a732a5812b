#include "conformance/report/utf8.h"

#include <array>

#include "reference/base/error.h"

namespace bdlm {
namespace {

constexpr uint32_t replacement = 0xfffd;
constexpr std::string_view replacement_bytes = "\xef\xbf\xbd";

// Whether XML 1.0 holds the character, production [2] Char.
bool is_xml_character(uint32_t code) {
  return code == 0x9 || code == 0xa || code == 0xd || (code >= 0x20 && code < 0xd800) ||
         (code >= 0xe000 && code < 0xfffe) || (code >= 0x10000 && code <= 0x10ffff);
}

}  // namespace

Utf8Character first_utf8_character(std::string_view text) {
  // The lowest code that a sequence of n + 1 bytes may stand for.
  constexpr std::array<uint32_t, 4> lowest{0, 0x80, 0x800, 0x10000};
  const auto lead = static_cast<uint8_t>(text.front());
  if (lead < 0x80) {
    return {lead, 1};
  }
  const size_t more = lead >= 0xf8 ? 0 : lead >= 0xf0 ? 3 : lead >= 0xe0 ? 2 : lead >= 0xc0 ? 1 : 0;
  if (more == 0 || text.size() <= more) {
    return {replacement, 1};
  }
  uint32_t code = lead & (0x3fU >> more);
  for (size_t i = 1; i <= more; ++i) {
    const auto byte = static_cast<uint8_t>(text[i]);
    if ((byte & 0xc0) != 0x80) {
      return {replacement, 1};
    }
    code = code << 6 | (byte & 0x3fU);
  }
  const bool surrogate = code >= 0xd800 && code < 0xe000;
  if (code < lowest[more] || code > 0x10ffff || surrogate) {
    return {replacement, 1};
  }
  return {code, more + 1};
}

int64_t utf8_columns(std::string_view text) {
  int64_t columns = 0;
  while (!text.empty()) {
    text.remove_prefix(first_utf8_character(text).bytes);
    ++columns;
  }
  return columns;
}

std::string xml_escaped(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const Utf8Character character = first_utf8_character(text);
    switch (character.code) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&apos;";
        break;
      case '\t':
      case '\n':
      case '\r':
        // As references they survive the normalisation of attributes.
        out += join("&#", character.code, ";");
        break;
      default:
        if (is_xml_character(character.code) && character.code != replacement) {
          out += text.substr(0, character.bytes);
        } else {
          out += replacement_bytes;
        }
    }
    text.remove_prefix(character.bytes);
  }
  return out;
}

}  // namespace bdlm
