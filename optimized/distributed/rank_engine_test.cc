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
