#pragma once
// The arguments of the plug-in's entries, checked and in the form in which kernels take them.

#include <span>
#include <vector>

#include "conformance/plugin/bdlm_plugin.h"
#include "optimized/cuda/problem.h"

namespace bdlm::cuda {

/// A set of formats, a bit for each.
constexpr uint32_t formats(std::initializer_list<Element> elements) {
  uint32_t bits = 0;
  for (const Element element : elements) {
    bits |= 1u << static_cast<int>(element);
  }
  return bits;
}

/// What a backend takes and gives, in the words of its contract.
struct AcceptedFormats {
  uint32_t input;           ///< q, k, v, d_o
  uint32_t o;               ///< what the forward writes
  uint32_t partial_o;       ///< states, what a merge reads and writes
  uint32_t lse;             ///< every log-sum-exp
  uint32_t saved_o;         ///< what the backward reads
  uint32_t gradient;        ///< dq, dk, dv
  uint32_t gradient_state;  ///< dq_state
};

/// Whether data pointers have to be there.
enum class Pointers : uint8_t { required, ignored };

/// Everything of the call but what is in the workspace. Throws InputError, one line, where an
/// argument is wrong, and UnsupportedError beyond 512 channels or 2^31 rows.
Problem read_forward(const bdlm_attention_args& args, const AcceptedFormats& accepted,
                     Pointers pointers);
Problem read_backward(const bdlm_attention_backward_args& args, const AcceptedFormats& accepted,
                      Pointers pointers);

/// A tensor (rows, heads, channels), or (rows, heads), checked as those of the calls are; `what`
/// names it in errors.
HeadRows head_rows(const char* what, const bdlm_tensor* tensor, int64_t rows, int64_t heads,
                   int64_t channels, uint32_t accepted, Pointers pointers);
RowNumbers row_numbers(const char* what, const bdlm_tensor* tensor, int64_t rows, int64_t heads,
                       uint32_t accepted, Pointers pointers);

/// The intervals of the key sets, (R, 2) each, as the caller has them.
std::vector<const int64_t*> intervals_of(int64_t set_count, const bdlm_keys* sets);

struct MergeProblem {
  int64_t rows = 0;
  int32_t heads = 1, head_dim = 1;
  HeadRows o_a, o_b, o;          ///< (R, H, D)
  RowNumbers lse_a, lse_b, lse;  ///< (R, H)
};
MergeProblem read_merge(const bdlm_merge_args& args, const AcceptedFormats& accepted);

/// Throws InputError unless the workspace is aligned and has at least `needed` bytes.
void require_workspace(const void* workspace, uint64_t bytes, uint64_t needed);

}  // namespace bdlm::cuda
