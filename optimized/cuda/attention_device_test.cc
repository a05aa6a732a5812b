// Both plug-ins on a device: small problems of many shapes, judged by their contracts.

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cstdio>
#include <cstdlib>

#include "conformance/judge/judge_attention.h"
#include "conformance/judge/test_cases.h"
#include "optimized/cuda/device_attention_test.h"
#include "optimized/cuda/device_test_plugins.h"

namespace bdlm {
BOOST_AUTO_TEST_SUITE(device_attention)

namespace {

struct DeviceCase {
  std::string what;
  Decomposition decomposition;
  AttentionShape heads;
  DataKind kind = DataKind::gauss;
  DeviceRun run = {};
};

/// The parts of an owner each, but all of one rank: merges, and no reduction.
Decomposition in_parts(const Sequence& sequence, const LayerRule& rule, int parts) {
  Decomposition d = split_by_owner(sequence, rule, parts);
  d.ranks = 1;
  for (int s = 0; s < 2; ++s) {
    std::fill(d.row_rank[s].begin(), d.row_rank[s].end(), 0);
    d.gradient_return[s] = GradientReturn::local;
  }
  return d;
}

/// Any interval of either stream for every row, a quarter of them empty: no mask of a model.
Decomposition anywhere(int64_t length, uint64_t seed) {
  Decomposition d = whole(Sequence::uniform(length, length), {CleanRule::block_causal, 0});
  for (int s = 0; s < 2; ++s) {
    for (int64_t row = 0; row < length; ++row) {
      d.parts[s][row].clear();
      for (int key = 0; key < 2; ++key) {
        const Philox random(seed, static_cast<uint32_t>(2 * s + key));
        const int64_t a = random.below(3 * row, length);
        const int64_t b = random.below(3 * row + 1, length);
        if (random.below(3 * row + 2, 4) > 0) {
          d.parts[s][row].push_back(
              {static_cast<Stream>(key), {std::min(a, b), std::max(a, b) + 1}, 0});
        }
      }
    }
  }
  return d;
}

std::vector<DeviceCase> device_cases() {
  const LayerRule block{CleanRule::block_causal, 0};
  const LayerRule token{CleanRule::token_causal, 0};
  const auto uniform = [](int64_t length, int64_t m) { return Sequence::uniform(length, m); };
  const Sequence documents =
      Sequence::uniform(261, 4, {{0, 5}, {5, 16}, {16, 17}, {40, 170}, {171, 250}});
  std::vector<DeviceCase> c;
  c.push_back({"M 16, D 64, 4:1", whole(uniform(300, 16), block), {4, 1, 64}});
  c.push_back({"M 100, D 128, 3:1", whole(uniform(333, 100), token), {3, 1, 128}});
  c.push_back({"M 1, D 128, 2:2", whole(uniform(257, 1), block), {2, 2, 128}});
  c.push_back({"M 256, D 64, 16:1", whole(uniform(300, 256), block), {16, 1, 64}});
  c.push_back({"M 32, D 256, 4:2", whole(uniform(200, 32), token), {4, 2, 256}});
  c.push_back({"M 16, D 512, 2:1", whole(uniform(150, 16), block), {2, 1, 512}});
  c.push_back(
      {"window 40, D 256", whole(uniform(190, 8), {CleanRule::token_causal, 40}), {2, 1, 256}});
  c.push_back({"window 1, D 64", whole(uniform(130, 7), {CleanRule::block_causal, 1}), {2, 1, 64}});
  c.push_back(
      {"window 100, D 128", whole(uniform(500, 16), {CleanRule::token_causal, 100}), {2, 1, 128}});
  c.push_back({"documents and padding",
               whole(documents, token),
               {4, 2, 128},
               DataKind::gauss,
               {Placement::contiguous, true}});
  c.push_back({"documents, padded rows",
               whole(documents, block),
               {4, 2, 64},
               DataKind::gauss,
               {Placement::padded, true}});
  c.push_back({"D 80, padded rows",
               whole(uniform(140, 32), block),
               {2, 1, 80},
               DataKind::gauss,
               {Placement::padded}});
  c.push_back({"D 24, unaligned rows",
               whole(uniform(140, 32), block),
               {3, 1, 24},
               DataKind::gauss,
               {Placement::odd}});
  c.push_back({"D 17, head-major",
               whole(uniform(140, 32), block),
               {4, 2, 17},
               DataKind::gauss,
               {Placement::head_major}});
  c.push_back({"D 200", whole(uniform(100, 32), token), {2, 1, 200}});
  c.push_back({"D 300, unaligned rows",
               whole(uniform(70, 8), token),
               {2, 1, 300},
               DataKind::gauss,
               {Placement::odd}});
  c.push_back({"any intervals, D 128",
               anywhere(281, 1),
               {4, 2, 128},
               DataKind::gauss,
               {Placement::head_major, true}});
  c.push_back({"any intervals, D 64",
               anywhere(150, 2),
               {2, 1, 64},
               DataKind::gauss,
               {Placement::contiguous, true}});
  c.push_back({"any intervals, D 512",
               anywhere(90, 3),
               {2, 1, 512},
               DataKind::gauss,
               {Placement::contiguous, true}});
  for (const int parts : {2, 3, 7}) {
    c.push_back({join(parts, " parts"), in_parts(uniform(230, 16), block, parts), {4, 2, 64}});
  }
  c.push_back({"2 parts, D 512", in_parts(uniform(100, 16), token, 2), {2, 1, 512}});
  c.push_back({"3 parts, documents",
               in_parts(documents, token, 3),
               {2, 1, 128},
               DataKind::gauss,
               {Placement::odd, true}});
  c.push_back({"one token", whole(uniform(1, 1), block), {1, 1, 64}});
  for (const DataKind kind :
       {DataKind::scores_80, DataKind::scores_1e4, DataKind::local_above, DataKind::local_below,
        DataKind::equal_maxima, DataKind::cancelling}) {
    c.push_back({name(kind), whole(uniform(200, 16), block), {4, 2, 64}, kind});
    c.push_back(
        {join(name(kind), ", 2 parts"), in_parts(uniform(150, 16), token, 2), {2, 1, 128}, kind});
  }
  return c;
}

/// Judges all cases, or those whose names contain BDLM_DEVICE_CASES; prints a line for each.
void judge_all(const Plugin& plugin) {
  const Contract contract = contract_of(plugin);
  std::printf("%s, contract %s\n%-28s  err/H  max z  RMS z  |gain-1|  by O LSE dQ dK dV\n",
              plugin->name, contract.name.c_str(), "case");
  uint64_t seed = 1;
  const char* only = std::getenv("BDLM_DEVICE_CASES");
  for (const DeviceCase& c : device_cases()) {
    ++seed;
    if (only != nullptr && c.what.find(only) == std::string::npos) {
      continue;
    }
    const AttentionProblem<double> p =
        rounded_data(c.heads, c.decomposition, c.kind, seed, contract);
    const ExpectedAttention expected = expected_attention(p, c.decomposition, contract);
    AttentionOutputs got;
    BOOST_TEST_CONTEXT(plugin->name << ", " << c.what) {
      try {
        got = DeviceAttention(plugin, contract, p, c.decomposition, c.run).compute();
      } catch (const Error& error) {
        BOOST_ERROR(error.what());
        continue;
      }
      std::printf("%-28s", c.what.c_str());
      for (const TensorResult& t :
           judge_attention(p, c.decomposition, expected, got, c.kind == DataKind::gauss)) {
        const bool right = t.verdict == Verdict::pass || t.verdict == Verdict::marginal ||
                           t.verdict == Verdict::mistrusted;
        BOOST_TEST(right,
                   t.tensor << ' ' << name(t.verdict) << ' ' << name(t.reason) << ' ' << t.detail);
        const auto figure = [&](const char* key) {
          for (const auto& [known, value] : t.figures) {
            if (known == key && std::holds_alternative<double>(value)) {
              return std::abs(std::get<double>(value));
            }
          }
          return 0.0;
        };
        std::printf("  %.2f %.1f %.2f %.0e%s", figure("err_over_h"), figure("max_z"),
                    figure("rms_z"), figure("gain_minus_1"),
                    t.verdict == Verdict::pass       ? ""
                    : t.verdict == Verdict::marginal ? "M"
                                                     : "!");
      }
      std::printf("\n");
      std::fflush(stdout);
    }
  }
}

BOOST_AUTO_TEST_CASE(double_is_within_its_bounds) {
  judge_all(*test_plugins().oracle);
}

BOOST_AUTO_TEST_CASE(bf16_is_within_its_bounds) {
  judge_all(*test_plugins().low);
}

}  // namespace

BOOST_AUTO_TEST_SUITE_END()

}  // namespace bdlm
