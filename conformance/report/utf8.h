#pragma once
// Text of unknown origin, made fit for a document.

#include <cstdint>
#include <string>
#include <string_view>

namespace bdlm {

/// A character and the bytes that it takes.
struct Utf8Character {
  /// U+FFFD for bytes that are no UTF-8; these are taken one at a time.
  uint32_t code;
  size_t bytes;
};

/// The first character of a text that is not empty. Overlong forms, surrogates and what exceeds
/// U+10FFFF are no UTF-8.
Utf8Character first_utf8_character(std::string_view text);

/// How many columns the text takes where every character takes one.
int64_t utf8_columns(std::string_view text);

/// Text for XML 1.0, between tags or inside a quoted attribute: & < > " ' and line breaks are
/// escaped, characters that XML cannot hold become U+FFFD.
std::string xml_escaped(std::string_view text);

}  // namespace bdlm
