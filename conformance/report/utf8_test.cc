#include "conformance/report/utf8.h"

#include <boost/test/unit_test.hpp>
#include <random>
#include <string>

using namespace bdlm;

BOOST_AUTO_TEST_SUITE(utf8)

BOOST_AUTO_TEST_CASE(first_character) {
  struct Row {
    std::string text;
    uint32_t code;
    size_t bytes;
  };
  const std::vector<Row> rows{
      {"A", 0x41, 1},
      {std::string(1, '\0'), 0, 1},
      {"\xce\xb4q", 0x3b4, 2},
      {"\xe2\x82\xac", 0x20ac, 3},
      {"\xf0\x9f\x98\x80", 0x1f600, 4},
      {"\xf4\x8f\xbf\xbf", 0x10ffff, 4},
      {"\x80", 0xfffd, 1},              // continuation without a lead
      {"\xce", 0xfffd, 1},              // cut
      {"\xce\x41", 0xfffd, 1},          // no continuation
      {"\xc0\xaf", 0xfffd, 1},          // overlong '/'
      {"\xe0\x80\xaf", 0xfffd, 1},      // overlong '/'
      {"\xed\xa0\x80", 0xfffd, 1},      // surrogate
      {"\xf4\x90\x80\x80", 0xfffd, 1},  // above U+10FFFF
      {"\xff", 0xfffd, 1},
  };
  for (const Row& row : rows) {
    const Utf8Character character = first_utf8_character(row.text);
    BOOST_TEST(character.code == row.code);
    BOOST_TEST(character.bytes == row.bytes);
  }
}

BOOST_AUTO_TEST_CASE(columns) {
  BOOST_TEST(utf8_columns("") == 0);
  BOOST_TEST(utf8_columns("\xce\xb4=1") == 3);
  BOOST_TEST(utf8_columns("\xff\xff") == 2);
}

BOOST_AUTO_TEST_CASE(xml) {
  BOOST_TEST(xml_escaped("a<b> & \"c\" 'd'") == "a&lt;b&gt; &amp; &quot;c&quot; &apos;d&apos;");
  BOOST_TEST(xml_escaped("x\n\ty") == "x&#10;&#9;y");
  BOOST_TEST(xml_escaped(std::string("\0\x1b[1m\x7f", 6)) == "\xef\xbf\xbd\xef\xbf\xbd[1m\x7f");
  BOOST_TEST(xml_escaped("\xef\xbf\xbe") == "\xef\xbf\xbd");  // U+FFFE
  BOOST_TEST(xml_escaped("\xce\xb4\xff") == "\xce\xb4\xef\xbf\xbd");
}

// Whatever the bytes are, the result is UTF-8 without markup, quotes and forbidden control
// characters.
BOOST_AUTO_TEST_CASE(xml_of_random_bytes) {
  std::mt19937_64 random(3);
  for (int i = 0; i < 2000; ++i) {
    std::string text(random() % 12, ' ');
    for (char& c : text) {
      c = static_cast<char>(random() & 0xff);
    }
    std::string escaped = xml_escaped(text);
    BOOST_REQUIRE(escaped.find_first_of("<>\"'") == std::string::npos);
    std::string_view rest = escaped;
    while (!rest.empty()) {
      const Utf8Character character = first_utf8_character(rest);
      BOOST_REQUIRE(character.code >= 0x20 && (character.code != 0xfffd || character.bytes == 3));
      rest.remove_prefix(character.bytes);
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
