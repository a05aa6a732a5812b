#include "reference/layout/sequence.h"

#include <boost/test/unit_test.hpp>
#include <functional>
#include <string>

#include "reference/base/error.h"

namespace bdlm {
BOOST_AUTO_TEST_SUITE(sequence)

namespace {

std::string message_of(const std::function<void()>& act) {
  try {
    act();
  } catch (const InputError& error) {
    return error.what();
  }
  return "no error";
}

std::vector<Interval> blocks_of(const Sequence& s) {
  std::vector<Interval> out;
  for (int64_t b = 0; b < s.blocks(); ++b) {
    out.push_back(s.block(b));
  }
  return out;
}

}  // namespace

BOOST_AUTO_TEST_CASE(uniform_blocks_end_with_a_short_one) {
  const Sequence s = Sequence::uniform(10, 4);
  BOOST_TEST((blocks_of(s) == std::vector<Interval>{{0, 4}, {4, 8}, {8, 10}}));
  BOOST_TEST(s.block_of(7) == 1);
  BOOST_TEST(s.block_of(8) == 2);
  BOOST_TEST(s.position(9) == 9);
}

// Blocks and positions start anew at a document; tokens of no document are padding.
BOOST_AUTO_TEST_CASE(documents_restart_blocks_and_positions) {
  const Sequence s = Sequence::uniform(20, 4, {{0, 5}, {5, 16}});
  BOOST_TEST(
      (blocks_of(s) == std::vector<Interval>{{0, 4}, {4, 5}, {5, 9}, {9, 13}, {13, 16}, {16, 20}}));
  BOOST_TEST(s.position(4) == 4);
  BOOST_TEST(s.position(5) == 0);
  BOOST_TEST(!s.is_padding(15));
  BOOST_TEST(s.is_padding(16));
  BOOST_TEST(s.position(17) == 0);
  const Sequence gap = Sequence::uniform(9, 4, {{2, 3}, {5, 9}});
  BOOST_TEST((blocks_of(gap) == std::vector<Interval>{{0, 2}, {2, 3}, {3, 5}, {5, 9}}));
  BOOST_TEST(gap.is_padding(0));
  BOOST_TEST(gap.is_padding(4));
}

BOOST_AUTO_TEST_CASE(explicit_blocks_are_kept) {
  const Sequence s = Sequence::with_blocks(12, {0, 1, 7}, {{0, 7}, {7, 12}});
  BOOST_TEST((blocks_of(s) == std::vector<Interval>{{0, 1}, {1, 7}, {7, 12}}));
}

BOOST_AUTO_TEST_CASE(wrong_input_is_named) {
  const auto says = [](const std::function<void()>& act, const char* text) {
    const std::string message = message_of(act);
    BOOST_TEST(message.find(text) != std::string::npos, message << " lacks '" << text << "'");
  };
  says([] { Sequence::uniform(0, 4); }, "length is 0");
  says([] { Sequence::uniform(8, 0); }, "block size is 0");
  says([] { Sequence::uniform(8, 4, {{0, 5}, {4, 8}}); }, "overlaps");
  says([] { Sequence::uniform(8, 4, {{0, 9}}); }, "outside the sequence [0,8)");
  says([] { Sequence::uniform(8, 4, {{-1, 4}}); }, "outside the sequence");
  says([] { Sequence::uniform(8, 4, {{3, 3}}); }, "is empty");
  says([] { Sequence::with_blocks(8, {}); }, "begin with 0");
  says([] { Sequence::with_blocks(8, {1, 4}); }, "begin with 0");
  says([] { Sequence::with_blocks(8, {0, 4, 4}); }, "above the one before");
  says([] { Sequence::with_blocks(8, {0, 8}); }, "below the length");
  says([] { Sequence::with_blocks(8, {0, 4}, {{0, 6}, {6, 8}}); }, "no block starts at 6");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace bdlm
