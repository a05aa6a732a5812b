#include "conformance/report/verdict.h"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cctype>
#include <set>
#include <string>
#include <vector>

#include "conformance/report/report.h"
#include "reference/base/error.h"

using namespace bdlm;

BOOST_AUTO_TEST_SUITE(verdict)

// Status 1 on FAIL, TIMEOUT, CRASH; under strict also on MISTRUSTED, SKIPPED, UNSUPPORTED, the last
// not where the entry is NULL.
BOOST_AUTO_TEST_CASE(exit_rules) {
  struct Row {
    Verdict verdict;
    Reason reason;
    bool fails;
    bool fails_strictly;
  };
  const std::vector<Row> rows{{Verdict::pass, Reason::none, false, false},
                              {Verdict::marginal, Reason::outlier, false, false},
                              {Verdict::unsupported, Reason::none, false, true},
                              {Verdict::unsupported, Reason::null_entry, false, false},
                              {Verdict::skipped, Reason::none, false, true},
                              {Verdict::mistrusted, Reason::none, false, true},
                              {Verdict::fail, Reason::bound, true, true},
                              {Verdict::timeout, Reason::none, true, true},
                              {Verdict::crash, Reason::none, true, true}};
  for (const Row& row : rows) {
    BOOST_TEST_CONTEXT(name(row.verdict)) {
      BOOST_TEST(is_failure(row.verdict, row.reason, false) == row.fails);
      BOOST_TEST(is_failure(row.verdict, row.reason, true) == row.fails_strictly);
      const CaseResult one{"a-s1", "T0", row.verdict, row.reason, {}, "", {}, {}};
      const CaseResult good{"a-s2", "T0", Verdict::pass, Reason::none, {}, "", {}, {}};
      BOOST_TEST(exit_status({good, one, good}, false) == (row.fails ? 1 : 0));
      BOOST_TEST(exit_status({good, one, good}, true) == (row.fails_strictly ? 1 : 0));
    }
  }
  BOOST_TEST(exit_status({}, true) == 0);
  // Entries that are NULL are declared; but a run that judges nothing is no success.
  CaseResult absent;
  absent.verdict = Verdict::unsupported;
  absent.reason = Reason::null_entry;
  BOOST_TEST(exit_status({absent, absent}, false) == 0);
  BOOST_TEST(exit_status({absent, absent}, true) == 1);
  BOOST_TEST(exit_status({absent, CaseResult{}}, true) == 0);
}

// lower(name) = summary key, and all eight differ.
BOOST_AUTO_TEST_CASE(names) {
  std::set<std::string> keys;
  for (const Verdict verdict : Summary::order) {
    std::string lower(name(verdict));
    std::transform(lower.begin(), lower.end(), lower.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    BOOST_TEST(lower == summary_key(verdict));
    keys.insert(lower);
  }
  BOOST_TEST(keys.size() == 8U);
  BOOST_TEST(name(Reason::none).empty());
  BOOST_TEST(name(Reason::nonfinite) == "nonfinite");
  BOOST_CHECK_THROW(name(static_cast<Verdict>(8)), LogicError);
  BOOST_CHECK_THROW(name(static_cast<Reason>(200)), LogicError);
}

BOOST_AUTO_TEST_SUITE_END()
