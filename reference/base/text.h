#pragma once
// Foreign text inside one-line messages.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace bdlm {

/// `text` fit for one line of a message: control characters become \n, \t or \xNN (U+0080 to U+009F
/// too, each of their bytes), and what exceeds `limit` bytes is cut and marked by "...". Cuts never
/// split a UTF-8 sequence.
std::string printable(std::string_view text, size_t limit = 120);

/// "a, b, c" of already printable items.
std::string listed(const std::vector<std::string>& items);

/// With blanks behind it, up to a width in bytes.
std::string padded(std::string text, size_t width);

/// "3, 0, 5": the indices of an element, counted in row-major order, of an array of this shape.
std::string index_text(int64_t element, const std::vector<int64_t>& shape);

}  // namespace bdlm
