// The entries of bdlm_bounds.h.

#include <numeric>

#include "optimized/cuda/attention_kernels.h"
#include "optimized/cuda/bounds_problem.h"
#include "optimized/cuda/context.h"
#include "optimized/cuda/failure.h"

namespace bdlm::cuda {
namespace {

constexpr uint32_t f64 = formats({Element::f64});
constexpr uint32_t any = formats({Element::bf16, Element::fp32, Element::f64});
constexpr AcceptedFormats accepted{any, f64, f64, f64, f64, f64, f64};

/// Everything of the call but what is in the workspace.
BoundsProblem read(const bdlm_attention_bounds_args* args, Pointers pointers) {
  require(args != nullptr && args->size >= sizeof(*args) && args->call != nullptr &&
              args->model != nullptr,
          "the arguments, the call or the model are missing");
  require(args->call->dq_state == nullptr, "bounds are of a whole layer, without dq_state");
  BoundsProblem b;
  b.call = read_backward(*args->call, accepted, pointers);
  b.model = *args->model;
  const Problem& p = b.call;
  const auto rows = [&](const char* what, const bdlm_tensor* tensor) {
    return head_rows(what, tensor, p.rows, p.q_heads, p.head_dim, f64, pointers);
  };
  const auto numbers = [&](const char* what, const bdlm_tensor* tensor) {
    return row_numbers(what, tensor, p.rows, p.q_heads, f64, pointers);
  };
  b.o = {rows("o_bound", args->o_bound), rows("o_deviation", args->o_deviation)};
  b.dq = {rows("dq_bound", args->dq_bound), rows("dq_deviation", args->dq_deviation)};
  b.lse_bound = numbers("lse_bound", args->lse_bound);
  b.lse_deviation = numbers("lse_deviation", args->lse_deviation);
  for (int s = 0; s < p.set_count; ++s) {
    const auto keys = [&](const char* what, const bdlm_tensor* tensor) {
      return head_rows(what, tensor, p.sets[s].keys, p.kv_heads, p.head_dim, f64, pointers);
    };
    b.dk[s] = {keys("dk_bound", args->dk_bound[s]), keys("dk_deviation", args->dk_deviation[s])};
    b.dv[s] = {keys("dv_bound", args->dv_bound[s]), keys("dv_deviation", args->dv_deviation[s])};
  }
  return b;
}

/// Where everything stands in the workspace. Returns its bytes.
size_t place(BoundsProblem& b, const TileSizes& tiles, void* workspace) {
  Arena arena(workspace);
  place_tables(b.call, tiles, arena);
  for (int s = 0; s < b.call.set_count; ++s) {
    b.rows_of_key[s] = arena.take<int32_t>(b.call.sets[s].keys);
  }
  const int64_t numbers = b.call.padded_rows * b.call.q_heads;
  b.call.delta = arena.take<double>(numbers);
  b.call.shift = arena.take<double>(numbers);
  for (double** array : {&b.z_error, &b.z_variance, &b.delta_error, &b.delta_variance}) {
    *array = arena.take<double>(numbers);
  }
  return arena.bytes();
}

/// How many rows see each key, from where runs of them begin and end.
std::vector<int32_t> count_rows(int64_t keys, int64_t rows, const int64_t* intervals) {
  std::vector<int32_t> counts(keys + 1, 0);
  for (int64_t row = 0; row < rows; ++row) {
    ++counts[intervals[2 * row]];
    --counts[intervals[2 * row + 1]];
  }
  std::partial_sum(counts.begin(), counts.end(), counts.begin());
  counts.pop_back();
  return counts;
}

void compute(const bdlm_attention_bounds_args* args, Context& context) {
  BoundsProblem b = read(args, Pointers::required);
  const TileSizes tiles = bound_tiles(b.call.head_dim);
  require_workspace(args->workspace, args->workspace_bytes, place(b, tiles, args->workspace));
  const auto stream = static_cast<cudaStream_t>(args->call->stream);
  const std::vector<const int64_t*> intervals =
      intervals_of(args->call->key_set_count, args->call->key_sets);
  const std::vector<std::byte> tables = build_tables(b.call, tiles, intervals, args->workspace);
  context.staging.copy(args->workspace, tables.data(), tables.size(), stream);
  for (int s = 0; s < b.call.set_count; ++s) {
    const std::vector<int32_t> counts = count_rows(b.call.sets[s].keys, b.call.rows, intervals[s]);
    context.staging.copy(const_cast<int32_t*>(b.rows_of_key[s]), counts.data(),
                         counts.size() * sizeof(int32_t), stream);
  }
  launch_double_row_terms(b.call, stream);
  launch_bounds(b, stream);
}

}  // namespace
}  // namespace bdlm::cuda

extern "C" bdlm_status bdlm_attention_bounds_workspace(void* context,
                                                       const bdlm_attention_bounds_args* args,
                                                       uint64_t* bytes) {
  using namespace bdlm::cuda;
  return guarded(context, [&](Context&) {
    BoundsProblem b = read(args, Pointers::ignored);
    *bytes = place(b, bound_tiles(b.call.head_dim), nullptr);
  });
}

extern "C" bdlm_status bdlm_attention_bounds(void* context,
                                             const bdlm_attention_bounds_args* args) {
  using namespace bdlm::cuda;
  return guarded(context, [&](Context& own) { compute(args, own); });
}
