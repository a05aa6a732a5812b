#include "conformance/report/case_id.h"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "reference/base/error.h"

using namespace bdlm;

BOOST_AUTO_TEST_SUITE(case_id)

BOOST_AUTO_TEST_CASE(reads_as_promised) {
  CaseId id("csbp");
  id.number("P", 4).number("L", 4096).number("M", 32).heads(16, 4).number("d", 128);
  id.word("dtype", "f64").word("data", "gauss").number("s", 7);
  BOOST_TEST(id.str() == "csbp-P4-L4096-M32-h16k4-d128-f64-gauss-s7");
  BOOST_TEST(CaseId("lse_merge").str() == "lse_merge");
  BOOST_TEST(CaseId("merge").word("kind", "empty_nan").number("chain", 512).str() ==
             "merge-chain512-empty_nan");
}

// str() is the same for every order of the calls.
BOOST_AUTO_TEST_CASE(order_of_calls_does_not_matter) {
  using Call = std::function<void(CaseId&)>;
  std::vector<Call> calls{[](CaseId& id) { id.number("s", 3); },
                          [](CaseId& id) { id.word("mask", "documents"); },
                          [](CaseId& id) { id.word("data", "cancel"); },
                          [](CaseId& id) { id.number("B", 9); },
                          [](CaseId& id) { id.number("chunk", 5); },
                          [](CaseId& id) { id.number("w", 1); },
                          [](CaseId& id) { id.heads(6, 3); },
                          [](CaseId& id) { id.word("dtype", "bf16"); },
                          [](CaseId& id) { id.number("P", 2); }};
  std::mt19937_64 random(11);
  for (int i = 0; i < 50; ++i) {
    std::shuffle(calls.begin(), calls.end(), random);
    CaseId id("bp");
    for (const Call& call : calls) {
      call(id);
    }
    BOOST_REQUIRE_EQUAL(id.str(), "bp-P2-w1-h6k3-B9-chunk5-bf16-cancel-documents-s3");
  }
}

BOOST_AUTO_TEST_CASE(refuses_what_would_not_be_an_id) {
  BOOST_CHECK_THROW(CaseId(""), InputError);
  BOOST_CHECK_THROW(CaseId("a-b"), InputError);
  BOOST_CHECK_THROW(CaseId("../up"), InputError);
  BOOST_CHECK_THROW(CaseId("4a"), InputError);
  CaseId id("cp");
  id.number("L", 64).word("dtype", "f64");
  BOOST_CHECK_THROW(id.number("L", 64), InputError);
  BOOST_CHECK_THROW(id.number("f", 64), InputError);
  BOOST_CHECK_THROW(id.number("", 1), InputError);
  BOOST_CHECK_THROW(id.number("L2", 1), InputError);
  BOOST_CHECK_THROW(id.number("z", -1), InputError);
  BOOST_CHECK_THROW(id.word("data", "a b"), InputError);
  BOOST_CHECK_THROW(id.word("data", ""), InputError);
  BOOST_CHECK_THROW(id.heads(0, 1), InputError);
  BOOST_TEST(id.str() == "cp-L64-f64");
}

BOOST_AUTO_TEST_CASE(reproducer) {
  BOOST_TEST(reproducer_line("csbp-P4-s7", "T3") == "bdlm verify --case csbp-P4-s7 --tier T3");
  BOOST_TEST(reproducer_line("csbp-P4-s7", "files", "--outputs out") ==
             "bdlm verify --case csbp-P4-s7 --outputs out");
  BOOST_TEST(reproducer_line("plan.json", "plan verify") == "bdlm plan verify plan.json");
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(glob)

BOOST_AUTO_TEST_CASE(literal_cases) {
  const std::string id = "csbp-P4-L4096-M32-h16k4-d128-f64-gauss-s7";
  for (const char* pattern :
       {"*", "csbp-*", "*-s7", "*P4*h16k4*", "csbp-P[1-4]-*", "csbp-P[!1-3]-*", "c?bp*", "**-s?",
        "*-s[x7]", "*-L4096-*-s[0-9]", "csbp-P4-L4096-M32-h16k4-d128-f64-gauss-s7"}) {
    BOOST_TEST_CONTEXT(pattern) {
      BOOST_TEST(glob_match(pattern, id));
    }
  }
  for (const char* pattern :
       {"", "csbp", "bp-*", "*-s8", "csbp-P[5-9]-*", "csbp-P[!4]-*", "*P4*P4*", "?", "*-s7?",
        "csbp*-", "csbp-P4-L4096-M32-h16k4-d128-f64-gauss-s77"}) {
    BOOST_TEST_CONTEXT(pattern) {
      BOOST_TEST(!glob_match(pattern, id));
    }
  }
  BOOST_TEST(glob_match("", ""));
  BOOST_TEST(glob_match("*", ""));
  BOOST_TEST(!glob_match("?", ""));
  BOOST_TEST(glob_match("[]x]", "]"));
  BOOST_TEST(glob_match("[a-]", "-"));
  BOOST_TEST(!glob_match("[!]]", "]"));
}

BOOST_AUTO_TEST_CASE(open_bracket_is_an_error) {
  for (const char* pattern : {"[", "a[bc", "zz[]", "x*[!"}) {
    BOOST_TEST_CONTEXT(pattern) {
      BOOST_CHECK_THROW(glob_match(pattern, "abc"), InputError);
      BOOST_CHECK_THROW(glob_match(pattern, ""), InputError);
    }
  }
}

// match(ε, ε); match(*p, t) = match(p, t) or match(*p, t[1:]); match(?p, ct) = match(p, t)
bool by_definition(std::string_view p, std::string_view t) {
  if (p.empty()) {
    return t.empty();
  }
  if (p.front() == '*') {
    return by_definition(p.substr(1), t) || (!t.empty() && by_definition(p, t.substr(1)));
  }
  return !t.empty() && (p.front() == '?' || p.front() == t.front()) &&
         by_definition(p.substr(1), t.substr(1));
}

BOOST_AUTO_TEST_CASE(agrees_with_definition) {
  std::mt19937_64 random(5);
  const auto draw = [&random](const std::string& alphabet, size_t most) {
    std::string text(random() % (most + 1), ' ');
    for (char& c : text) {
      c = alphabet[random() % alphabet.size()];
    }
    return text;
  };
  int matches = 0;
  for (int i = 0; i < 20000; ++i) {
    const std::string pattern = draw("ab*?", 6);
    const std::string text = draw("ab", 7);
    BOOST_REQUIRE_MESSAGE(glob_match(pattern, text) == by_definition(pattern, text),
                          pattern << " on " << text);
    matches += glob_match(pattern, text) ? 1 : 0;
  }
  BOOST_TEST(matches > 1000);
}

// A pattern that takes a backtracking matcher 2^n steps.
BOOST_AUTO_TEST_CASE(many_stars_are_no_trap) {
  std::string pattern;
  for (int i = 0; i < 200; ++i) {
    pattern += "*a";
  }
  BOOST_TEST(!glob_match(pattern + "b", std::string(20000, 'a')));
  BOOST_TEST(glob_match(pattern, std::string(20000, 'a')));
}

BOOST_AUTO_TEST_SUITE_END()
