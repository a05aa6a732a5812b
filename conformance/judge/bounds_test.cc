#include "conformance/judge/bounds.h"

#ifdef _OPENMP
#include <omp.h>
#endif

#include <boost/test/unit_test.hpp>

#include "conformance/judge/emulated.h"
#include "conformance/judge/gradient_reduction.h"
#include "conformance/judge/test_cases.h"
#include "reference/math/attention_naive.h"

namespace bdlm {
BOOST_AUTO_TEST_SUITE(bounds)

namespace {

constexpr int clean = static_cast<int>(Stream::clean);
constexpr int corrupted = static_cast<int>(Stream::corrupted);

/// max |a - b| over max |b|
double distance(const std::vector<double>& a, const std::vector<double>& b) {
  double most = 0;
  double size = 1e-300;
  for (size_t i = 0; i < b.size(); ++i) {
    if (a[i] != b[i]) {
      most = std::max(most, std::abs(a[i] - b[i]));
    }
    size = std::max(size, std::isfinite(b[i]) ? std::abs(b[i]) : 0);
  }
  return most / size;
}

// The clean rows alone (dO = 0 on corrupted rows) are one-stream attention, whose textbook
// evaluation takes the gradient by the full Jacobian of the softmax.
BOOST_AUTO_TEST_CASE(values_are_those_of_the_textbook) {
  const Sequence sequence = Sequence::uniform(37, 5, {{0, 11}, {11, 35}});
  const LayerRule rule{CleanRule::token_causal, 9};
  const AttentionShape shape{4, 2, 6};
  const Contract contract = builtin_contract("f64");
  const Decomposition d = whole(sequence, rule);
  AttentionProblem<double> p = rounded_data(shape, d, DataKind::gauss, 3, contract);
  std::fill(p.d_o[corrupted].begin(), p.d_o[corrupted].end(), 0);
  const ExpectedAttention expected = expected_attention(p, d, contract);

  NaiveAttention<double> naive;
  naive.rows = naive.keys = p.length;
  naive.q_heads = shape.q_heads;
  naive.kv_heads = shape.kv_heads;
  naive.head_dim = shape.head_dim;
  naive.scale = p.scale;
  for (int64_t row = 0; row < p.length; ++row) {
    naive.seen.push_back(visible(sequence, rule, Stream::clean, row, Stream::clean));
  }
  naive.q = p.q[clean];
  naive.k = p.k[clean];
  naive.v = p.v[clean];
  naive.d_o = p.d_o[clean];
  naive.compute();
  BOOST_TEST(distance(expected.o.value[clean], naive.o) < 1e-14);
  BOOST_TEST(distance(expected.lse.value[clean], naive.lse) < 1e-14);
  BOOST_TEST(distance(expected.dq.value[clean], naive.dq) < 1e-14);
  BOOST_TEST(distance(expected.dk.value[clean], naive.dk) < 1e-14);
  BOOST_TEST(distance(expected.dv.value[clean], naive.dv) < 1e-14);
}

// Both streams: the pipeline in double, which shares no formula with the bounds.
BOOST_AUTO_TEST_CASE(values_do_not_depend_on_the_decomposition) {
  const Contract contract = builtin_contract("f64");
  for (const JudgedShape& shape : judged_shapes()) {
    const AttentionProblem<double> p =
        rounded_data(shape.heads, shape.decomposition, DataKind::gauss, 4, contract);
    const ExpectedAttention expected = expected_attention(p, shape.decomposition, contract);
    const AttentionOutputs got = emulate(p, shape.decomposition, contract);
    BOOST_TEST_CONTEXT(shape.what) {
      for (int s = 0; s < 2; ++s) {
        BOOST_TEST(distance(got.o[s], expected.o.value[s]) < 1e-13);
        BOOST_TEST(distance(got.lse[s], expected.lse.value[s]) < 1e-13);
        BOOST_TEST(distance(got.dq[s], expected.dq.value[s]) < 1e-13);
        BOOST_TEST(distance(got.dk[s], expected.dk.value[s]) < 1e-13);
        BOOST_TEST(distance(got.dv[s], expected.dv.value[s]) < 1e-13);
      }
    }
  }
}

// One row, one key, one channel: q = 2, k = 3, v = 1.5, dO = -0.5. Then s = S = z = 6, p = 1,
// O = 1.5, dp = delta = -0.75, dS = 0, dV = -0.5, and by hand
//   e = u (6 * 6 + 6 + 4) = 46 u,  z's error = 47 u,  rel = exp(93 u) - 1
BOOST_AUTO_TEST_CASE(bounds_of_one_pair) {
  const Contract contract = builtin_contract("bf16");
  AttentionProblem<double> p;
  p.shape = {1, 1, 1};
  p.length = 1;
  for (int s = 0; s < 2; ++s) {
    p.q[s] = {2};
    p.k[s] = {3};
    p.v[s] = {1.5};
    p.d_o[s] = {-0.5};
  }
  const ExpectedAttention e =
      expected_attention(p, whole(Sequence::uniform(1, 1), LayerRule{}), contract);
  const double u = 0x1p-24 + 0x1p-53;
  const double b = 0x1p-8;
  const double rel = std::expm1(93 * u);
  const auto near = boost::test_tools::tolerance(1e-12);
  BOOST_TEST(e.lse.value[clean][0] == 6, near);
  BOOST_TEST(e.lse.bound[clean][0] == 47 * u, near);
  const double before = 1.5 * (b + rel + u);
  BOOST_TEST(e.o.bound[clean][0] == before + b * (1.5 + before), near);
  // E = u_O |dO O| + |dp| (u_P + rel) + (D + c) u A
  const double delta_error = 0.75 * b + 0.75 * (b + rel) + 2 * u * 0.75;
  const double ds = (1 + rel) * (delta_error + u * 0.75) * (1 + b);
  BOOST_TEST(e.dq.bound[clean][0] == 3 * ds * (1 + b), near);
  BOOST_TEST(e.dk.bound[clean][0] == 2 * ds * (1 + b), near);
  const double dv = 0.5 * (b + rel + u);
  BOOST_TEST(e.dv.bound[clean][0] == dv + b * (0.5 + dv), near);
  // kappa u^2 (p^2 v^2 + O^2), but for fp32
  BOOST_TEST(e.o.deviation[clean][0] == std::sqrt(0.18 * 2) * b * 1.5,
             boost::test_tools::tolerance(1e-6));
  BOOST_TEST(e.dv.deviation[clean][0] == std::sqrt(0.18 * 2) * b * 0.5,
             boost::test_tools::tolerance(1e-6));
  // dQ: scale^2 p^2 k^2 VarD, VarD = (dO O)^2 + p^2 dp^2
  BOOST_TEST(e.dq.deviation[clean][0] == 3 * std::sqrt(0.18 * 2) * b * 0.75,
             boost::test_tools::tolerance(1e-6));
}

// Parts 1, -2, 4 of ranks 0, 1, 2. Ring to owner 0: -2, 2, 3; fixed: 1, -1, 3; tree: (1 - 2) + 4.
BOOST_AUTO_TEST_CASE(terms_of_a_reduction) {
  const PartialGradients x{{1, -2, 4}, {1, 1, 1}};
  const ReductionTerms ring = low_precision_reduction(ReduceOrder::ring, 0, x);
  BOOST_TEST(ring.terms == 7 + 2 + 3);
  BOOST_TEST(ring.squares == 21 + 4 + 9);
  const ReductionTerms fixed = low_precision_reduction(ReduceOrder::fixed, 0, x);
  BOOST_TEST(fixed.terms == 7 + 1 + 3);
  BOOST_TEST(fixed.squares == 21 + 1 + 9);
  const ReductionTerms tree = low_precision_reduction(ReduceOrder::tree, 0, x);
  BOOST_TEST(tree.terms == 7 * 3);
  BOOST_TEST(tree.squares == 21 + 1 + 9);
  // Of one rank nothing but the cast is rounded.
  const ReductionTerms one = low_precision_reduction(ReduceOrder::ring, 0, {{0, 5, 0}, {0, 1, 0}});
  BOOST_TEST(one.squares == 25);
}

// A chain of at most 64 terms: 4096 = 64 x 64 takes 128 roundings in sequence.
BOOST_AUTO_TEST_CASE(declared_chains) {
  Contract contract = builtin_contract("bf16");
  BOOST_TEST(ErrorModel(contract, 64).chain(4096) == 8 * 64);
  BOOST_TEST(ErrorModel(contract, 64).chain(9) == 9);
  contract.chain = 64;
  BOOST_TEST(ErrorModel(contract, 64).steps(4096) == 128);
  BOOST_TEST(ErrorModel(contract, 64).chain(4096) == 8 * std::sqrt(128.0));
}

// H = 0 exactly on padding, and nowhere else under a mask in which every token sees itself.
BOOST_AUTO_TEST_CASE(zero_bounds_are_rows_that_see_nothing) {
  const Sequence sequence = Sequence::uniform(20, 4, {{0, 7}, {7, 15}});
  const Decomposition d = whole(sequence, {CleanRule::block_causal, 5});
  const Contract contract = builtin_contract("bf16");
  const AttentionProblem<double> p = rounded_data({2, 1, 4}, d, DataKind::gauss, 1, contract);
  const ExpectedAttention e = expected_attention(p, d, contract);
  for (int s = 0; s < 2; ++s) {
    for (int64_t row = 0; row < 20; ++row) {
      const bool padding = row >= 15;
      BOOST_TEST((e.o.bound[s][row * 8] == 0) == padding);
      BOOST_TEST((e.lse.bound[s][row * 2] == 0) == padding);
      BOOST_TEST((e.dq.bound[s][row * 8] == 0) == padding);
      BOOST_TEST((e.dk.bound[s][row * 4] == 0) == padding);
      BOOST_TEST((e.dv.bound[s][row * 4] == 0) == padding);
    }
  }
}

#ifdef _OPENMP
// The same bits on one thread and on three.
BOOST_AUTO_TEST_CASE(threads_do_not_matter) {
  const Decomposition d = split_by_owner(Sequence::uniform(33, 4), LayerRule{}, 3);
  const Contract contract = builtin_contract("bf16");
  const AttentionProblem<double> p = rounded_data({4, 2, 8}, d, DataKind::gauss, 2, contract);
  const int before = omp_get_max_threads();
  omp_set_num_threads(1);
  const ExpectedAttention one = expected_attention(p, d, contract);
  omp_set_num_threads(3);
  const ExpectedAttention three = expected_attention(p, d, contract);
  omp_set_num_threads(before);
  for (auto tensor : {&ExpectedAttention::o, &ExpectedAttention::lse, &ExpectedAttention::dq,
                      &ExpectedAttention::dk, &ExpectedAttention::dv}) {
    BOOST_TEST(((one.*tensor).value == (three.*tensor).value));
    BOOST_TEST(((one.*tensor).bound == (three.*tensor).bound));
    BOOST_TEST(((one.*tensor).deviation == (three.*tensor).deviation));
  }
}
#endif

BOOST_AUTO_TEST_CASE(wrong_inputs) {
  const Sequence sequence = Sequence::uniform(16, 4);
  const Contract contract = builtin_contract("bf16");
  const Decomposition d = whole(sequence, LayerRule{});
  AttentionProblem<double> p = rounded_data({2, 1, 4}, d, DataKind::gauss, 2, contract);
  p.k[clean][3] = 0.1;  // no bf16
  BOOST_CHECK_THROW(expected_attention(p, d, contract), InputError);
  p.k[clean][3] = std::nan("");
  BOOST_CHECK_THROW(expected_attention(p, d, contract), InputError);
  p.k[clean].pop_back();
  BOOST_CHECK_THROW(expected_attention(p, d, contract), InputError);
  // BP adds nothing up between ranks.
  const Decomposition bp = planned(sequence, LayerRule{}, Scheme::bp, 2);
  const AttentionProblem<double> q = rounded_data({2, 1, 4}, bp, DataKind::gauss, 2, contract);
  BOOST_CHECK_THROW(expected_attention(q, bp, contract), InputError);
}

}  // namespace

BOOST_AUTO_TEST_SUITE_END()

}  // namespace bdlm
