#include "optimized/cuda/attention_entries.h"

#include "optimized/cuda/failure.h"
#include "optimized/cuda/sm90/kernels.h"

namespace bdlm::cuda {
namespace {

template <class Args>
void require_arguments(const Args* args) {
  require(args != nullptr, "there are no arguments");
}

/// A forward's workspace.
struct ForwardPlace {
  bool sm90 = false;
  int32_t* next = nullptr;        // sm90: the counter of tiles
  int32_t* not_finite = nullptr;  // sm90: whether the plain kernels have to do it
  size_t bytes = 0;
};

ForwardPlace place_forward(const AttentionKernels& kernels, void* workspace,
                           const Problem& problem) {
  ForwardPlace place;
  place.sm90 = kernels.gradients != nullptr && forward_sm90_serves(problem);
  Arena arena(workspace);
  if (place.sm90) {
    place.next = arena.take<int32_t>(1);
    place.not_finite = arena.take<int32_t>(1);
  }
  place.bytes = arena.bytes();
  return place;
}

/// A backward's: delta and shift; and for sm90 what it sums in.
struct BackwardPlace {
  bool sm90 = false;
  BackwardSm90Memory sums;
  int32_t* not_finite = nullptr;
  size_t bytes = 0;
};

BackwardPlace place_backward(const AttentionKernels& kernels, void* workspace, Problem& problem) {
  BackwardPlace place;
  place.sm90 = kernels.gradients != nullptr && backward_sm90_serves(problem);
  problem.padded_rows = round_up(problem.rows, row_granularity);
  Arena arena(workspace);
  const int64_t bytes = problem.padded_rows * problem.q_heads * kernels.real_bytes;
  problem.delta = arena.take<char>(bytes);
  problem.shift = arena.take<char>(bytes);
  if (place.sm90) {
    Problem with_tables = problem;
    Arena tables(nullptr);
    place_tables(with_tables, sm90_backward_tiles, tables);
    place.sums = place_backward_sm90(with_tables, arena);
    place.not_finite = arena.take<int32_t>(1);
  }
  place.bytes = arena.bytes();
  return place;
}

/// The problem with its tables for these tiles.
template <class Args>
Problem with_tables(Problem problem, const TileSizes& tiles, const Args& args, Context& own) {
  own.masks.place(problem, tiles, intervals_of(args.key_set_count, args.key_sets), own.staging,
                  static_cast<cudaStream_t>(args.stream));
  return problem;
}

}  // namespace

bdlm_status forward_workspace(const AttentionKernels& kernels, void* context,
                              const bdlm_attention_args* args, uint64_t* bytes) {
  return guarded(context, [&](Context&) {
    require_arguments(args);
    Problem problem = read_forward(*args, kernels.accepted, Pointers::ignored);
    *bytes = place_forward(kernels, nullptr, problem).bytes;
  });
}

bdlm_status backward_workspace(const AttentionKernels& kernels, void* context,
                               const bdlm_attention_backward_args* args, uint64_t* bytes) {
  return guarded(context, [&](Context&) {
    require_arguments(args);
    Problem problem = read_backward(*args, kernels.accepted, Pointers::ignored);
    *bytes = place_backward(kernels, nullptr, problem).bytes;
  });
}

bdlm_status forward(const AttentionKernels& kernels, void* context,
                    const bdlm_attention_args* args) {
  return guarded(context, [&](Context& own) {
    require_arguments(args);
    const auto stream = static_cast<cudaStream_t>(args->stream);
    Problem problem = read_forward(*args, kernels.accepted, Pointers::required);
    const ForwardPlace place = place_forward(kernels, args->workspace, problem);
    require_workspace(args->workspace, args->workspace_bytes, place.bytes);
    problem = with_tables(problem, kernels.forward_tiles(problem.head_dim), *args, own);
    if (place.sm90) {
      launch_search_not_finite(problem, place.not_finite, stream);
      launch_forward_sm90(problem, place.next, place.not_finite, stream);
      problem.only_if = place.not_finite;
    }
    kernels.forward(problem, stream);
  });
}

bdlm_status backward(const AttentionKernels& kernels, void* context,
                     const bdlm_attention_backward_args* args) {
  return guarded(context, [&](Context& own) {
    require_arguments(args);
    const auto stream = static_cast<cudaStream_t>(args->stream);
    Problem problem = read_backward(*args, kernels.accepted, Pointers::required);
    const BackwardPlace place = place_backward(kernels, args->workspace, problem);
    require_workspace(args->workspace, args->workspace_bytes, place.bytes);
    const Problem bare = problem;
    problem = with_tables(bare, kernels.backward_tiles(problem.head_dim), *args, own);
    if (!place.sm90) {
      kernels.backward(problem, stream);
      return;
    }
    launch_row_terms(problem, stream);
    launch_search_not_finite(problem, place.not_finite, stream);
    launch_backward_sm90(with_tables(bare, sm90_backward_tiles, *args, own), place.sums,
                         place.not_finite, stream);
    problem.only_if = place.not_finite;
    kernels.gradients(problem, stream);
  });
}

bdlm_status merge(const AttentionKernels& kernels, void* context, const bdlm_merge_args* args) {
  return guarded(context, [&](Context&) {
    require_arguments(args);
    kernels.merge(read_merge(*args, kernels.accepted), static_cast<cudaStream_t>(args->stream));
  });
}

}  // namespace bdlm::cuda
