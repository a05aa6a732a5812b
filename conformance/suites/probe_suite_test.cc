#include <boost/test/unit_test.hpp>

#include "conformance/suites/suite_test_support.h"

namespace bdlm {
BOOST_AUTO_TEST_SUITE(probe_suite)

namespace {

BOOST_AUTO_TEST_CASE(right_code_passes) {
  for (const char* contract : {"bf16", "fp32"}) {
    Selection selection;
    selection.ranks = {1, 2};
    const std::vector<CaseResult> results = run_all(probe_cases(selection), *plain(contract));
    BOOST_TEST(results.size() > 15u);
    BOOST_TEST(complaints(results) == "", contract << complaints(results));
  }
}

BOOST_AUTO_TEST_CASE(mistakes_are_named) {
  const auto names = [](const std::string& what, auto plant) {
    PlainFaults faults;
    plant(faults);
    Selection selection;
    selection.ranks = {1, 2};
    const CaseResult r = first_failure(probe_cases(selection), *plain("bf16", faults));
    BOOST_TEST(
        (r.verdict == Verdict::fail && r.reason == Reason::coverage && r.detail.find(what) == 0),
        what << ": " << r.id << ' ' << name(r.verdict) << ' ' << name(r.reason) << ' ' << r.detail);
  };
  const auto clean_set = [](const PlainKeySet& set) { return set.stream == BDLM_CLEAN; };
  names("one row misses one key", [&](PlainFaults& f) {
    f.seen = [=](const PlainRow& row, const PlainKeySet& set, Interval keys) {
      const bool hit = row.stream == BDLM_CLEAN && row.position == 9 && clean_set(set);
      return hit && !keys.empty() ? Interval{keys.begin + 1, keys.end} : keys;
    };
  });
  names("own clean block visible", [&](PlainFaults& f) {
    f.seen = [=](const PlainRow& row, const PlainKeySet& set, Interval keys) {
      if (row.stream == BDLM_CLEAN || !clean_set(set)) {
        return keys;
      }
      const int64_t* after = std::upper_bound(
          set.layout.block_start, set.layout.block_start + set.layout.blocks, row.position);
      return Interval{keys.begin, std::max(keys.end, set.index_of(*after))};
    };
  });
  for (const int64_t wider : {1, -1}) {
    for (const int32_t stream : {BDLM_CLEAN, BDLM_CORRUPTED}) {
      names(
          wider > 0 ? "window off by one: one key too many" : "window off by one: one key too few",
          [&](PlainFaults& f) {
            f.seen = [=](const PlainRow& row, const PlainKeySet& set, Interval keys) {
              const bool cut = row.stream == stream && clean_set(set) && set.layout.window > 0 &&
                               keys.begin > 0 && keys.size() > 1;
              return cut ? Interval{keys.begin - wider, keys.end} : keys;
            };
          });
    }
  }
  names("query heads read other KV heads", [](PlainFaults& f) {
    f.kv_head = [](int64_t h, int64_t, int64_t kv_heads) { return h % kv_heads; };
  });
  names("dK and dV have only the first query head", [](PlainFaults& f) {
    f.adds_gradient = [](int64_t h, int64_t group) { return h % group == 0; };
  });
  names("LSE in base 2", [](PlainFaults& f) { f.base_2_lse = true; });
  names("weights are wrong", [](PlainFaults& f) { f.merge = PlainMerge::average; });
  names("keys of the row's own corrupted block missing",
        [](PlainFaults& f) { f.forgets_state = true; });
}

}  // namespace

BOOST_AUTO_TEST_SUITE_END()

}  // namespace bdlm
