// Virtual ranks: every scheme on one device, ranks as threads, exchange by copies on the device.

#include <boost/test/unit_test.hpp>
#include <cstdio>

#include "optimized/cuda/device_memory.h"
#include "optimized/cuda/device_test_plugins.h"
#include "optimized/distributed/judged_schedules_test.h"

namespace bdlm {
BOOST_AUTO_TEST_SUITE(device_schedules)

namespace {

using distributed::RankDevice;

RankDevice on_device(const char* variable) {
  return {Backend::load(std::getenv(variable)), std::make_unique<cuda::DeviceMemory>()};
}

void judge_schemes(const char* variable, const std::vector<AttentionShape>& shapes, Level level) {
  const auto make = [&] { return on_device(variable); };
  const RankDevice device = make();
  const Contract& contract = device.backend->contract();
  for (const int ranks : {1, 2, 4, 8}) {
    for (const Scheme scheme : {Scheme::monolithic, Scheme::cp, Scheme::bp, Scheme::csbp}) {
      if ((scheme == Scheme::monolithic) != (ranks == 1)) {
        continue;
      }
      double worst = 0;
      size_t runs = 0;
      for (const LayoutCase& layout : layout_cases(level, scheme, ranks)) {
        const AttentionShape& shape = shapes[runs++ % shapes.size()];
        worst = std::max(worst, distributed::judge_schedule(make, contract, layout, shape, 12));
      }
      std::printf("%s, %d virtual ranks, %s: %zu layouts, err/H %.2f\n", contract.name.c_str(),
                  ranks, name(scheme), runs, worst);
    }
  }
}

BOOST_AUTO_TEST_CASE(every_scheme_in_bf16) {
  judge_schemes("BDLM_CUDA_PLUGIN", {{4, 2, 128}, {3, 1, 64}, {2, 1, 24}, {2, 2, 128}},
                Level::quick);
}

BOOST_AUTO_TEST_CASE(every_scheme_in_double) {
  judge_schemes("BDLM_CUDA_F64_PLUGIN", {{4, 2, 64}, {3, 1, 24}}, Level::quick);
}

// Tiles of 128 rows and more than one of them a rank.
BOOST_AUTO_TEST_CASE(long_sequences_in_bf16) {
  const auto make = [] { return on_device("BDLM_CUDA_PLUGIN"); };
  const RankDevice device = make();
  const Contract& contract = device.backend->contract();
  for (const int64_t window : {int64_t{0}, int64_t{300}}) {
    for (const int ranks : {2, 4, 8}) {
      for (const Scheme scheme : {Scheme::cp, Scheme::bp, Scheme::csbp}) {
        const Shape shape{Sequence::uniform(2048, 32), 32, "", ""};
        const LayoutCase layout{
            shape, {CleanRule::block_causal, window}, scheme, ranks, BlockAssignment::dual_end};
        const double worst = distributed::judge_schedule(make, contract, layout, {4, 1, 128}, 13);
        std::printf("2048 tokens, window %lld, %d virtual ranks, %s: err/H %.2f\n",
                    static_cast<long long>(window), ranks, name(scheme), worst);
      }
    }
  }
}

}  // namespace

BOOST_AUTO_TEST_SUITE_END()

}  // namespace bdlm
