// Right low-precision pipelines pass, with figures that leave the limits room.

#include "conformance/judge/judge_attention.h"

#include <boost/test/unit_test.hpp>
#include <cstdio>
#include <map>

#include "conformance/judge/emulated.h"
#include "conformance/judge/test_cases.h"

namespace bdlm {
BOOST_AUTO_TEST_SUITE(judge_attentions)

namespace {

struct Range {
  double least = std::numeric_limits<double>::infinity();
  double most = 0;
  void add(double x) {
    least = std::min(least, std::abs(x));
    most = std::max(most, std::abs(x));
  }
};

/// Figures by tensor and name.
using Ranges = std::map<std::pair<std::string, std::string>, Range>;

/// Judges every shape under seeds [first, last); returns the worst verdict.
Verdict judge_all(const Contract& contract, DataKind kind, uint64_t first, uint64_t last,
                  Ranges& ranges) {
  Verdict worst = Verdict::pass;
  for (const JudgedShape& shape : judged_shapes()) {
    for (uint64_t seed = first; seed < last; ++seed) {
      const AttentionProblem<double> p =
          rounded_data(shape.heads, shape.decomposition, kind, seed, contract);
      const ExpectedAttention expected = expected_attention(p, shape.decomposition, contract);
      const AttentionOutputs got = emulate(p, shape.decomposition, contract);
      for (const TensorResult& t :
           judge_attention(p, shape.decomposition, expected, got, kind == DataKind::gauss)) {
        worst = std::max(worst, t.verdict);
        if (t.verdict != Verdict::pass) {
          BOOST_TEST_MESSAGE(contract.name << ' ' << name(kind) << ' ' << shape.what << " s" << seed
                                           << ' ' << t.tensor << ' ' << name(t.verdict) << ' '
                                           << name(t.reason) << ' ' << t.detail);
        }
        for (const auto& [key, value] : t.figures) {
          if (const double* x = std::get_if<double>(&value)) {
            ranges[{t.tensor, key}].add(*x);
          }
        }
      }
    }
  }
  return worst;
}

Range over(const Ranges& ranges, const std::string& key) {
  Range all;
  for (const auto& [name, range] : ranges) {
    if (name.second == key) {
      all.least = std::min(all.least, range.least);
      all.most = std::max(all.most, range.most);
    }
  }
  return all;
}

void print(const Contract& contract, const Ranges& ranges) {
  std::printf("%-17s", contract.name.c_str());
  for (const char* tensor : {"O", "dQ", "dK", "dV"}) {
    const auto get = [&](const char* key) { return ranges.at({tensor, key}); };
    std::printf("  %s %.2f %.2f %.2f-%.2f %.1e", tensor, get("err_over_h").most, get("max_z").most,
                get("rms_z").least, get("rms_z").most, get("gain_minus_1").most);
  }
  std::printf("  LSE %.2f %.1e\n", ranges.at({"LSE", "err_over_h"}).most,
              ranges.at({"LSE", "lse"}).most);
}

Contract variant(const std::string& name, const std::function<void(Contract&)>& edit) {
  Contract contract = builtin_contract("bf16");
  contract.name = name;
  edit(contract);
  return contract;
}

Contract fp16() {
  return variant("fp16", [](Contract& c) {
    for (Dtype Contract::*site : {&Contract::input, &Contract::p, &Contract::ds, &Contract::o,
                                  &Contract::gradient, &Contract::reduce}) {
      c.*site = Dtype::fp16;
    }
  });
}

// Gaussian data: 16 shapes x 8 seeds under bf16, and x 3 under its variants. Where O is in fp32, an
// output may depend on few roundings, none at all where one key takes most of a row.
BOOST_AUTO_TEST_CASE(right_pipelines_pass) {
  std::puts(
      "contract           tensor, largest err/H, max z, RMS z from-to, |gain-1|; LSE err/H, mass");
  const std::vector<Contract> low{
      builtin_contract("bf16"),
      builtin_contract("bf16-fp32-reduce"),
      fp16(),
      variant("bf16-tree", [](Contract& c) { c.reduce_order = ReduceOrder::tree; }),
      variant("bf16-partial", [](Contract& c) { c.partial_o = Dtype::bf16; }),
      variant("bf16-fp32-o", [](Contract& c) { c.o = c.gradient = c.reduce = Dtype::fp32; })};
  for (const Contract& contract : low) {
    Ranges ranges;
    BOOST_TEST((judge_all(contract, DataKind::gauss, 1, contract.name == "bf16" ? 9 : 4, ranges) ==
                Verdict::pass),
               contract.name);
    print(contract, ranges);
    BOOST_TEST(over(ranges, "max_z").most <= 5.0);
    BOOST_TEST(over(ranges, "rms_z").least >= (contract.o == Dtype::fp32 ? 0.5 : 0.74));
    BOOST_TEST(over(ranges, "rms_z").most <= 1.08);
    BOOST_TEST(over(ranges, "lse").most <= 1.1e-6);
  }
  for (const char* name : {"fp32", "f64"}) {
    const Contract contract = builtin_contract(name);
    Ranges ranges;
    BOOST_TEST((judge_all(contract, DataKind::gauss, 1, 3, ranges) == Verdict::pass), name);
    print(contract, ranges);
    BOOST_TEST(over(ranges, "err_over_h").most <= 0.3);
  }
}

// Scores of +-80 and +-1e4, log-sum-exps 80 apart, equal keys, cancelling values: nothing right
// fails. Where softmax takes one key alone, or all keys are equal, dQ and dK may be nothing but
// rounding errors; then the case says that it is vacuous.
BOOST_AUTO_TEST_CASE(data_that_breaks_kernels) {
  for (const Contract& contract : {builtin_contract("bf16"), builtin_contract("fp32"), fp16()}) {
    for (const DataKind kind :
         {DataKind::scores_80, DataKind::scores_1e4, DataKind::local_above, DataKind::local_below,
          DataKind::equal_maxima, DataKind::cancelling}) {
      Ranges ranges;
      const Verdict worst = judge_all(contract, kind, 1, 2, ranges);
      BOOST_TEST((worst < Verdict::fail), contract.name << ' ' << name(kind));
      const bool vacuous = kind == DataKind::equal_maxima;
      BOOST_TEST((worst == Verdict::mistrusted || !vacuous), contract.name << ' ' << name(kind));
      const bool sound = kind == DataKind::local_above || kind == DataKind::local_below ||
                         kind == DataKind::cancelling;
      BOOST_TEST((worst <= Verdict::marginal || !sound), contract.name << ' ' << name(kind));
    }
  }
}

// O' = sum over other keys of p v / (1 - p), z' = log of the others' sum, by evaluating the row
// again.
BOOST_AUTO_TEST_CASE(a_dropped_pair_is_what_is_evaluated_without_it) {
  const Contract contract = builtin_contract("f64");
  const Decomposition d = whole(Sequence::uniform(24, 4), LayerRule{});
  const AttentionProblem<double> p = rounded_data({4, 2, 8}, d, DataKind::gauss, 5, contract);
  const ExpectedAttention expected = expected_attention(p, d, contract);
  const std::optional<Pair> pair = pair_to_drop(p, d, expected);
  BOOST_REQUIRE(pair.has_value());
  const AttentionOutputs dropped = without_pair(p, expected, *pair);
  EmulatedFaults faults;
  faults.missing_key = MissingKey{pair->stream, pair->row, pair->key_stream, pair->key};
  const AttentionOutputs again = emulate(p, d, contract, faults);
  const int s = static_cast<int>(pair->stream);
  const int64_t at = pair->row * 4 + pair->head;
  const auto near = boost::test_tools::tolerance(1e-12);
  BOOST_TEST(dropped.lse[s][at] == again.lse[s][at], near);
  for (int64_t c = 0; c < 8; ++c) {
    BOOST_TEST(dropped.o[s][at * 8 + c] == again.o[s][at * 8 + c], near);
  }
  // In the backward, too, the row's dQ, and one element of the key's dV and dK, change.
  BOOST_TEST(dropped.dq[s][at * 8] != expected.dq.value[s][at * 8]);
  BOOST_TEST((dropped.dv != expected.dv.value && dropped.dk != expected.dk.value));
}

// A row of 5,000 keys is more than the check of a dropped pair reaches; one of 64 is not.
BOOST_AUTO_TEST_CASE(rows_of_many_keys_are_left_to_the_probe) {
  const Contract contract = builtin_contract("fp32");
  for (const int64_t length : {int64_t{64}, int64_t{5000}}) {
    Decomposition d = whole(Sequence::uniform(length, length), {CleanRule::token_causal, 1});
    AttentionProblem<double> p = rounded_data({1, 1, 1}, d, DataKind::gauss, 5, contract);
    for (int64_t row = 3; row < length; ++row) {
      d.parts[0][row].clear();
      d.parts[1][row].clear();
    }
    p.d_o = {};
    const ExpectedAttention expected = expected_attention(p, d, contract);
    const AttentionOutputs got = emulate(p, d, contract);
    const std::vector<TensorResult> results = judge_attention(p, d, expected, got, true);
    BOOST_TEST(results.size() == 2u);
    BOOST_TEST(std::get<std::string>(*find_figure(results[0].figures, "dropped_pair")) ==
               (length == 64 ? "caught" : "untested"));
  }
}

}  // namespace

BOOST_AUTO_TEST_SUITE_END()

}  // namespace bdlm
