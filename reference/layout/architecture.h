#pragma once
// What a model looks like, as far as shapes, visibility and traffic depend on it.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reference/layout/visibility.h"

namespace bdlm {

/// The largest count that a model may have of anything: heads, channels, layers, tokens.
inline constexpr int64_t largest_count = int64_t{1} << 31;

enum class Family : uint8_t {
  dense_gqa,     ///< dense transformer with grouped-query attention
  moe_sliding,   ///< mixture of experts, sliding and full layers
  hybrid_delta,  ///< gated delta rule and full attention
  drafter,       ///< draft model for speculative decoding
};
const char* name(Family family);

enum class LayerKind : uint8_t { full, sliding, delta };
const char* name(LayerKind kind);

/// Which dimensions rotary positions rotate, where it is not all of them.
enum class RopeLayout : uint8_t {
  prefix,        ///< the first fraction * D dimensions, exponents over their number
  proportional,  ///< pairs (i, i + D/2) of the first fraction * D/2, exponents over D
};

/// One layer's sequence mixer. The head counts of a delta layer are in Architecture::delta; its own
/// are 0.
struct LayerShape {
  LayerKind kind = LayerKind::full;
  /// Keys that a sliding window holds, the row's own included; 0 unless sliding.
  int64_t window = 0;
  int64_t q_heads = 0;
  int64_t kv_heads = 0;
  int64_t head_dim = 0;
  /// V comes from the projection of K; there is no V projection.
  bool value_from_key = false;
  /// 0 where positions are not rotated.
  double rope_theta = 0;
  double rope_fraction = 1;
  RopeLayout rope_layout = RopeLayout::prefix;

  /// Elements of one row's K and V together.
  int64_t kv_elements() const { return 2 * kv_heads * head_dim; }
  friend bool operator==(const LayerShape&, const LayerShape&) = default;
};

struct DeltaShape {
  int64_t key_heads = 0;
  int64_t value_heads = 0;
  int64_t head_dim = 0;
  /// Taps of the causal convolution.
  int64_t conv = 0;
  friend bool operator==(const DeltaShape&, const DeltaShape&) = default;
};

struct MoeShape {
  int64_t experts = 0;
  int64_t top_k = 0;
  int64_t expert_mlp = 0;
  friend bool operator==(const MoeShape&, const MoeShape&) = default;
};

struct DraftShape {
  /// Tapped hidden states of the target; 0 is the embedding.
  std::vector<int64_t> taps;
  /// Width of the concatenated taps.
  int64_t feature_width = 0;
  int64_t target_layers = 0;
  int64_t conv_group = 0;
  int64_t conv_kernel = 0;
  int64_t selector_rank = 0;
  int64_t selector_top_k = 0;
  int64_t max_anchors = 0;
  bool causal_local = false;
  double output_mult = 1;
  friend bool operator==(const DraftShape&, const DraftShape&) = default;
};

/// One attention call of every layer in one pass over the model: which streams ask and which are
/// asked.
struct AttentionRole {
  std::string name;
  bool clean_queries = true;
  bool corrupted_queries = true;
  bool corrupted_keys = true;
  friend bool operator==(const AttentionRole&, const AttentionRole&) = default;
};

struct Architecture {
  /// Name in the table, or the file it was read from.
  std::string name;
  Family family = Family::dense_gqa;
  std::vector<LayerShape> layers;
  int64_t hidden = 0;
  /// Width of the dense gated MLP.
  int64_t mlp = 0;
  int64_t vocab = 0;
  /// The output head is the embedding.
  bool tied = false;
  /// Queries and keys are normalised per head.
  bool qk_norm = false;
  /// Projections of Q, K and V have biases.
  bool qkv_bias = false;
  /// The projection of the output of attention has a bias.
  bool output_bias = false;
  double rms_eps = 0;
  /// "default", or the name of a scaling of rotary positions that this library does not compute;
  /// the first one found if layers differ.
  std::string rope_type = "default";
  /// Factor of the logits of attention; 1 / sqrt(head_dim) where absent.
  std::optional<double> attention_scale;
  /// c of c * tanh(logit / c) over the output logits.
  std::optional<double> final_softcap;
  std::optional<int64_t> mask_token;
  int64_t block_size = 256;
  std::optional<DeltaShape> delta;
  std::optional<MoeShape> moe;
  std::optional<DraftShape> draft;
  /// Keys of the table whose values no public file states; "all" for every one.
  std::vector<std::string> inferred;

  int64_t layer_count() const { return static_cast<int64_t>(layers.size()); }
  /// What clean rows see unless a case says otherwise.
  CleanRule clean_rule() const;
  /// The mask of layer `index`. Throws InputError for a delta layer, which has none.
  LayerRule rule(int64_t index) const;
  /// dense_gqa, hybrid_delta: one call with both streams. moe_sliding: an encoder, which runs the
  /// clean stream on itself, then a decoder, whose corrupted rows attend to the encoder's clean
  /// keys of the same layer and to their own block. drafter: one call of the draft rows.
  std::vector<AttentionRole> roles() const;
};

/// The names of the table, in alphabetical order.
std::vector<std::string> known_models();
bool is_known_model(std::string_view name);
/// Throws InputError, which lists the known names, for any other.
Architecture known_architecture(std::string_view name);

/// Throws InputError naming the dimension, its value and what is allowed.
void check(const Architecture& architecture);

}  // namespace bdlm
