#pragma once
// How a caller puts another engine in the place of the CPU engine.

#include <functional>
#include <memory>

namespace bdlm {

struct AttentionOptions;
struct AttentionShape;
struct RankPlan;
template <class T>
class CpuEngine;

/// Makes the engine of one layer on one rank, from its plan, shape, scale and options; an empty one
/// stands for a CpuEngine.
template <class T>
using EngineFactory = std::function<std::unique_ptr<CpuEngine<T>>(
    const RankPlan&, const AttentionShape&, const T&, const AttentionOptions&)>;

}  // namespace bdlm
