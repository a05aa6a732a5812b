#include "conformance/doors/compare_runs.h"

#include <boost/test/unit_test.hpp>
#include <cmath>

#include "conformance/judge/emulated.h"
#include "conformance/judge/test_cases.h"
#include "reference/base/philox.h"

namespace bdlm {
BOOST_AUTO_TEST_SUITE(comparing_runs)

namespace {

CompareOptions bf16() {
  return {builtin_contract("bf16"), 1, 4096};
}

/// (rows, width), each element rounded to bf16 after an error of its own.
std::vector<double> run(int64_t size, uint64_t errors) {
  const Philox values(1);
  const Philox noise(errors);
  std::vector<double> out;
  for (int64_t i = 0; i < size; ++i) {
    out.push_back(round_to(values.gaussian(i) * (1 + 0x1p-9 * noise.gaussian(i)), Dtype::bf16));
  }
  return out;
}

TensorResult judged(const std::vector<double>& a, const std::vector<double>& b) {
  return compare_tensor("x", {64, 32}, a, b, bf16());
}

bool says(const TensorResult& r, const std::string& text) {
  return r.detail.find(text) != std::string::npos;
}

BOOST_AUTO_TEST_CASE(two_correct_runs) {
  for (uint64_t seed = 2; seed < 40; ++seed) {
    const TensorResult r = judged(run(2048, 1), run(2048, seed));
    BOOST_TEST((r.verdict == Verdict::pass), r.detail);
  }
}

// One layer of attention, whole and over 2 to 8 ranks, in every contract: the limit has room.
BOOST_AUTO_TEST_CASE(two_decompositions) {
  double most = 0;
  for (const char* contract_name : {"bf16", "bf16-fp32-reduce", "fp32"}) {
    const Contract contract = builtin_contract(contract_name);
    const CompareOptions options{contract, 1, 64};
    const Sequence sequence = Sequence::uniform(64, 4);
    const Decomposition one = whole(sequence, LayerRule{});
    for (uint64_t seed = 1; seed < 4; ++seed) {
      const AttentionProblem<double> p =
          rounded_data({4, 2, 16}, one, DataKind::gauss, seed, contract);
      const AttentionOutputs a = emulate(p, one, contract);
      for (const int ranks : {2, 4, 8}) {
        const AttentionOutputs b =
            emulate(p, planned(sequence, LayerRule{}, Scheme::csbp, ranks), contract);
        const auto check = [&](const ByStream<double>& x, const ByStream<double>& y) {
          for (int s = 0; s < 2; ++s) {
            const auto size = static_cast<int64_t>(x[s].size());
            const TensorResult r = compare_tensor("x", {64, size / 64}, x[s], y[s], options);
            BOOST_TEST((r.verdict == Verdict::pass), contract_name << ' ' << r.detail);
            most = std::max(most, std::get<double>(*find_figure(r.figures, "relative_l2")) /
                                      relative_limit(options));
          }
        };
        check(a.o, b.o);
        check(a.dq, b.dq);
        check(a.dk, b.dk);
        check(a.dv, b.dv);
      }
    }
  }
  BOOST_TEST_MESSAGE("largest relative L2 error over its limit: " << most);
  BOOST_TEST(most < 0.5);
}

BOOST_AUTO_TEST_CASE(factors) {
  const std::vector<double> a = run(2048, 1);
  for (const auto& [factor, text] :
       std::vector<std::pair<double, std::string>>{{0.5, "B is A x 0.5 (1/2)"},
                                                   {2, "B is A x 2"},
                                                   {0.125, "(1/8)"},
                                                   {-1, "B is A x -1"},
                                                   {1.01, "B is A x 1.01"}}) {
    std::vector<double> b = run(2048, 2);
    for (double& x : b) {
      x *= factor;
    }
    const TensorResult r = judged(a, b);
    BOOST_TEST((r.verdict == Verdict::fail && r.reason == Reason::scale), factor);
    BOOST_TEST(says(r, text), r.detail);
  }
  const TensorResult zero = judged(a, std::vector<double>(a.size(), 0));
  BOOST_TEST((zero.verdict == Verdict::fail && says(zero, "B is zero")), zero.detail);
}

BOOST_AUTO_TEST_CASE(rows) {
  const std::vector<double> a = run(2048, 1);
  std::vector<double> b = run(2048, 2);
  for (int64_t i = 8 * 32; i < 16 * 32; ++i) {
    b[i] = 0;
  }
  const TensorResult r = judged(a, b);
  BOOST_TEST((r.verdict == Verdict::fail));
  BOOST_TEST(says(r, "only rows [8,16) of axis 0 differ, which are zero in B"), r.detail);
  // Two chunks in each other's place.
  b = run(2048, 2);
  std::swap_ranges(b.begin(), b.begin() + 8 * 32, b.begin() + 24 * 32);
  BOOST_TEST(says(judged(a, b), "row 0 of B is row 24 of A: another order"), judged(a, b).detail);
}

BOOST_AUTO_TEST_CASE(values_that_are_no_numbers) {
  std::vector<double> a = run(2048, 1);
  std::vector<double> b = a;
  a[7] = b[7] = -std::numeric_limits<double>::infinity();
  BOOST_TEST((judged(a, b).verdict == Verdict::pass));
  b[7] = std::nan("");
  const TensorResult r = judged(a, b);
  BOOST_TEST((r.verdict == Verdict::fail && r.reason == Reason::nonfinite));
  BOOST_TEST(says(r, "first at [0, 7]: -inf and nan"), r.detail);
}

BOOST_AUTO_TEST_CASE(nothing_in_a) {
  const std::vector<double> zero(64, 0);
  std::vector<double> b = zero;
  BOOST_TEST((compare_tensor("x", {64}, zero, b, bf16()).verdict == Verdict::pass));
  b[3] = 1;
  const TensorResult r = compare_tensor("x", {64}, zero, b, bf16());
  BOOST_TEST((r.verdict == Verdict::fail && says(r, "A is zero")), r.detail);
}

}  // namespace

BOOST_AUTO_TEST_SUITE_END()

}  // namespace bdlm
