#pragma once
// Foreign text inside one-line messages.

#include <cstddef>
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

}  // namespace bdlm
