#include "conformance/golden/sha256.h"

#include <boost/test/unit_test.hpp>
#include <string_view>

namespace bdlm {
BOOST_AUTO_TEST_SUITE(sha256_suite)

namespace {

std::string digest(std::string_view text, size_t step) {
  Sha256 out;
  for (size_t at = 0; at < text.size(); at += step) {
    const std::string_view part = text.substr(at, step);
    out.add(part.data(), part.size());
  }
  return out.hex();
}

// The standard's own examples, and a million times the letter a, in pieces of every kind of size.
BOOST_AUTO_TEST_CASE(standard_examples) {
  BOOST_TEST(digest("", 1) == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  BOOST_TEST(digest("abc", 1) ==
             "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  const std::string_view two = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
  for (const size_t step : {size_t{1}, size_t{7}, size_t{56}}) {
    BOOST_TEST(digest(two, step) ==
               "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  }
  const std::string many(1000000, 'a');
  for (const size_t step : {size_t{63}, size_t{64}, size_t{65}, many.size()}) {
    BOOST_TEST(digest(many, step) ==
               "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
  }
}

}  // namespace

BOOST_AUTO_TEST_SUITE_END()

}  // namespace bdlm
