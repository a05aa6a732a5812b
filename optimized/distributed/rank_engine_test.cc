// The engine over the CPU backends, under every scheme.

#include "optimized/distributed/rank_engine.h"

#include <boost/test/unit_test.hpp>
#include <cstdio>

#include "optimized/cpu/backend.h"
#include "optimized/distributed/host_memory.h"
#include "optimized/distributed/judged_schedules_test.h"
#include "reference/base/error.h"

namespace bdlm::distributed {
BOOST_AUTO_TEST_SUITE(rank_engine)

namespace {

RankDevice on_host(const bdlm_backend* entries) {
  return {Backend::of(*entries), std::make_unique<HostMemory>()};
}

/// The worst err / H of the schemes on `ranks` ranks.
double judge_schemes(const bdlm_backend* entries, int ranks, const AttentionShape& shape) {
  const auto make = [&] { return on_host(entries); };
  const Contract contract = make().backend->contract();
  double worst = 0;
  for (const Scheme scheme : {Scheme::monolithic, Scheme::cp, Scheme::bp, Scheme::csbp}) {
    if ((scheme == Scheme::monolithic) != (ranks == 1)) {
      continue;
    }
    for (const LayoutCase& layout : layout_cases(Level::quick, scheme, ranks)) {
      worst = std::max(worst, judge_schedule(make, contract, layout, shape, 11));
    }
  }
  return worst;
}

BOOST_AUTO_TEST_CASE(every_scheme_is_the_same_function) {
  for (const int ranks : {1, 2, 3, 4}) {
    const double fp32 = judge_schemes(bdlm_cpu_backend(), ranks, {4, 2, 16});
    const double bf16 = judge_schemes(bdlm_cpu_bf16_backend(), ranks, {3, 1, 24});
    std::printf("%d ranks: err/H %.2f in fp32, %.2f with bf16 storage\n", ranks, fp32, bf16);
  }
}

/// The same steps with one band each: states continue, and gradients of a buffer are added up.
std::vector<Step> band_by_band(const std::vector<Step>& steps) {
  std::vector<Step> out;
  for (const Step& step : steps) {
    if (const auto* attend = std::get_if<Attend>(&step)) {
      for (const Band& band : attend->bands) {
        const bool first = &band == attend->bands.data();
        out.push_back(Attend{attend->buffer, attend->state, attend->from_state || !first, {band}});
      }
    } else if (const auto* backward = std::get_if<AttendBackward>(&step)) {
      for (const Band& band : backward->bands) {
        out.push_back(AttendBackward{backward->buffer, {band}});
      }
    } else {
      out.push_back(step);
    }
  }
  return out;
}

BOOST_AUTO_TEST_CASE(parts_of_a_buffer_are_added) {
  const auto make = [] { return on_host(bdlm_cpu_backend()); };
  const Contract contract = make().backend->contract();
  const Sequence sequence = Sequence::uniform(24, 4);
  const LayoutCase layout{{sequence, 4, "", ""}, {}, Scheme::csbp, 2, BlockAssignment::dual_end};
  const AttentionShape shape{2, 1, 16};
  const AttentionProblem<double> problem = backend_data(shape, 24, DataKind::gauss, 3, contract);
  const Layer layer{sequence, {}, 2, 1, 16, problem.scale};
  std::vector<RankPlan> plans = groups_of(layout)[0];
  size_t backwards = 0;
  for (RankPlan& plan : plans) {
    const size_t before = plan.backward.size();
    plan.forward = band_by_band(plan.forward);
    plan.backward = band_by_band(plan.backward);
    backwards += plan.backward.size() - before;
  }
  BOOST_TEST(backwards > 2u);
  const BackendOutcome got = run_on_ranks(make, layer, plans, problem);
  const Decomposition parts = of_plans(sequence, {}, plans);
  for (const TensorResult& t : judge_attention(
           problem, parts, expected_attention(problem, parts, contract), got.outputs, true)) {
    BOOST_TEST((t.verdict < Verdict::fail), t.tensor << ' ' << t.detail);
  }
}

BOOST_AUTO_TEST_CASE(what_it_cannot_do_is_said) {
  BOOST_CHECK_THROW(formats_of(builtin_contract("bf16")), InputError);
  const Sequence sequence = Sequence::uniform(8, 2);
  const LayoutCase layout{
      {sequence, 2, "", ""}, {}, Scheme::monolithic, 1, BlockAssignment::dual_end};
  const Layer layer{sequence, {}, 3, 2, 8, 1};
  const std::vector<RankPlan> plans = groups_of(layout)[0];
  HostMemory memory;
  bdlm_backend lacking = *bdlm_cpu_backend();
  lacking.merge = nullptr;
  const Entries without_merge{&lacking, nullptr, {}};
  BOOST_CHECK_THROW(RankEngine(without_merge, memory, layer, plans[0]), InputError);
  // Three query heads on two KV heads: the backend refuses, in its own words.
  const RankDevice device = on_host(bdlm_cpu_backend());
  const Entries entries{&device.backend->entries(), device.backend->context(),
                        formats_of(device.backend->contract())};
  RankEngine engine(entries, memory, layer, plans[0]);
  const std::vector<float> q(size_t{16} * 3 * 8), k(size_t{16} * 2 * 8);
  engine.load(q.data(), k.data(), k.data());
  try {
    engine.attend(std::get<Attend>(plans[0].forward[0]));
    BOOST_TEST(false, "three heads on two went through");
  } catch (const EntryError& error) {
    BOOST_TEST(std::string(error.what()).find("cpu: attention returned ") == 0u, error.what());
  }
}

}  // namespace

BOOST_AUTO_TEST_SUITE_END()

}  // namespace bdlm::distributed
