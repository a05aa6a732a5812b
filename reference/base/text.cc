#include "reference/base/text.h"

#include <algorithm>

namespace bdlm {

std::string printable(std::string_view text, size_t limit) {
  bool cut = false;
  if (text.size() > limit) {
    size_t end = limit;
    while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) {
      --end;
    }
    text = text.substr(0, end);
    cut = true;
  }
  constexpr char digits[] = "0123456789abcdef";
  std::string out;
  bool upper = false;  // the second byte of U+0080 to U+009F, which terminals obey too
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const auto byte = static_cast<unsigned char>(c);
    const bool escaped = upper;
    upper = byte == 0xc2 && i + 1 < text.size() &&
            (static_cast<unsigned char>(text[i + 1]) & 0xe0) == 0x80;
    if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (byte < 0x20 || byte == 0x7f || upper || escaped) {
      out += "\\x";
      out += digits[byte >> 4];
      out += digits[byte & 15];
    } else {
      out += c;
    }
  }
  return cut ? out + "..." : out;
}

std::string listed(const std::vector<std::string>& items) {
  std::string out;
  for (const std::string& item : items) {
    out += (out.empty() ? "" : ", ") + item;
  }
  return out;
}

std::string padded(std::string text, size_t width) {
  text.resize(std::max(width, text.size()), ' ');
  return text;
}

std::string index_text(int64_t element, const std::vector<int64_t>& shape) {
  std::vector<std::string> indices(shape.size());
  for (size_t axis = shape.size(); axis-- > 0;) {
    indices[axis] = std::to_string(element % shape[axis]);
    element /= shape[axis];
  }
  return listed(indices);
}

}  // namespace bdlm
