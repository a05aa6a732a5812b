#include "reference/base/text.h"

#include <boost/test/unit_test.hpp>

namespace bdlm {
BOOST_AUTO_TEST_SUITE(text)

namespace {

BOOST_AUTO_TEST_CASE(control_characters_never_reach_a_message) {
  BOOST_TEST(printable("a\nb\tc\x1b[0m\r\x7f") == "a\\nb\\tc\\x1b[0m\\x0d\\x7f");
  BOOST_TEST(printable(std::string_view("\0x", 2)) == "\\x00x");
  // U+009B begins a terminal's commands as ESC [ does; U+00A0 and é are letters.
  BOOST_TEST(printable("\xc2\x9b"
                       "2J\xc2\xa0\xc3\xa9\xc2Z\xc2") == "\\xc2\\x9b2J\xc2\xa0\xc3\xa9\xc2Z\xc2");
}

BOOST_AUTO_TEST_CASE(long_text_is_cut_between_utf8_sequences) {
  BOOST_TEST(printable("abcdef", 6) == "abcdef");
  BOOST_TEST(printable("abcdefg", 6) == "abcdef...");
  BOOST_TEST(printable("abcd\xc3\xa9z", 5) == "abcd...");
  BOOST_TEST(printable("abcd\xc3\xa9z", 6) == "abcd\xc3\xa9...");
}

BOOST_AUTO_TEST_CASE(lists_are_separated_by_commas) {
  BOOST_TEST(listed({}) == "");
  BOOST_TEST(listed({"a"}) == "a");
  BOOST_TEST(listed({"a", "b", "c"}) == "a, b, c");
}

}  // namespace

BOOST_AUTO_TEST_SUITE_END()

}  // namespace bdlm
