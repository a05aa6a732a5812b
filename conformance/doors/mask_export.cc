#include "conformance/doors/mask_export.h"

#include <cstring>

#include "reference/base/error.h"
#include "reference/base/text.h"

namespace bdlm {
namespace {

constexpr Stream streams[] = {Stream::clean, Stream::corrupted};

template <class T>
TensorData tensor(const std::string& name, DType dtype, std::vector<int64_t> shape,
                  const std::vector<T>& values) {
  TensorData out{{name, dtype, std::move(shape)},
                 std::vector<std::byte>(values.size() * sizeof(T))};
  if (!values.empty()) {
    std::memcpy(out.bytes.data(), values.data(), out.bytes.size());
  }
  return out;
}

const char* rule_word(CleanRule rule) {
  return rule == CleanRule::block_causal ? "block_causal" : "token_causal";
}

template <class T>
std::string list_text(const std::vector<T>& values) {
  std::string out;
  for (size_t i = 0; i < values.size(); ++i) {
    out += join(i == 0 ? "" : i % 16 == 0 ? ",\n    " : ", ", values[i]);
  }
  return "[" + out + "]";
}

}  // namespace

MaskFormat parse_mask_format(const std::string& text) {
  const std::vector<std::string> names{"dense", "intervals", "flex", "cu_seqlens"};
  for (size_t i = 0; i < names.size(); ++i) {
    if (text == names[i]) {
      return static_cast<MaskFormat>(i);
    }
  }
  throw InputError(join("--format is '", printable(text), "'; allowed are ", listed(names)));
}

MaskPart parse_mask_part(const std::string& text) {
  std::vector<std::string> names;
  for (const Stream query : streams) {
    for (const Stream key : streams) {
      names.push_back(join(name(query), '-', name(key)));
      if (text == names.back()) {
        return {query, key};
      }
    }
  }
  throw InputError(join("--part is '", printable(text), "'; allowed are ", listed(names)));
}

std::vector<TensorData> dense_mask(const Sequence& sequence, const LayerRule& rule) {
  const int64_t length = sequence.length();
  constexpr int64_t most = int64_t{1} << 32;
  require(4 * length * length <= most, "a dense mask of ", length, " tokens has ",
          4 * length * length, " elements; allowed are ", most, ". --format intervals is small");
  std::vector<uint8_t> mask(4 * length * length, 0);
  for (const Stream query : streams) {
    for (int64_t row = 0; row < length; ++row) {
      for (const Stream key : streams) {
        const Interval keys = visible(sequence, rule, query, row, key);
        const int64_t at =
            (static_cast<int>(query) * length + row) * 2 * length + static_cast<int>(key) * length;
        for (int64_t j = keys.begin; j < keys.end; ++j) {
          mask[at + j] = 1;
        }
      }
    }
  }
  return {tensor("mask", DType::boolean, {2 * length, 2 * length}, mask)};
}

std::vector<TensorData> interval_mask(const Sequence& sequence, const LayerRule& rule) {
  std::vector<int64_t> out;
  for (const Stream query : streams) {
    for (int64_t row = 0; row < sequence.length(); ++row) {
      for (const Stream key : streams) {
        const Interval keys = visible(sequence, rule, query, row, key);
        out.push_back(keys.empty() ? 0 : keys.begin);
        out.push_back(keys.empty() ? 0 : keys.end);
      }
    }
  }
  return {tensor("intervals", DType::i64, {2, sequence.length(), 2, 2}, out)};
}

PackedMask packed_mask(const Sequence& sequence, const LayerRule& rule, const MaskPart& part) {
  const bool one_block_each =
      sequence.blocks() == static_cast<int64_t>(sequence.documents().size());
  PackedMask out;
  std::vector<Interval> packed;
  if (part.query == Stream::corrupted && part.key == Stream::corrupted) {
    for (int64_t b = 0; b < sequence.blocks(); ++b) {
      packed.push_back(sequence.block(b));
    }
  } else {
    require(part.key == Stream::clean,
            "clean rows see no corrupted keys; there is nothing to pack");
    require(part.query == Stream::clean,
            "the corrupted rows of a block see all clean keys of the "
            "document before the block, which later blocks see as well; cu_seqlens cannot share "
            "keys between sequences. --format intervals, flex and dense can");
    out.causal = rule.clean == CleanRule::token_causal;
    require(out.causal || (one_block_each && rule.window == 0),
            "block-causal clean rows of several blocks share the keys before them; cu_seqlens "
            "cannot share keys between sequences. --format intervals, flex and dense can");
    out.window_left = rule.window > 0 ? rule.window - 1 : -1;
    packed = sequence.documents();
  }
  out.cu_q = {0};
  for (const Interval& run : packed) {
    if (sequence.is_padding(run.begin)) {
      continue;
    }
    for (int64_t i = run.begin; i < run.end; ++i) {
      out.rows.push_back(i);
    }
    out.cu_q.push_back(static_cast<int64_t>(out.rows.size()));
  }
  out.cu_k = out.cu_q;
  out.keys = out.rows;
  return out;
}

std::vector<TensorData> packed_tensors(const PackedMask& mask) {
  const auto narrow = [](const std::vector<int64_t>& values) {
    return std::vector<int32_t>(values.begin(), values.end());
  };
  const auto sequences = static_cast<int64_t>(mask.cu_q.size());
  return {tensor("cu_seqlens_q", DType::i32, {sequences}, narrow(mask.cu_q)),
          tensor("cu_seqlens_k", DType::i32, {sequences}, narrow(mask.cu_k)),
          tensor("rows", DType::i64, {static_cast<int64_t>(mask.rows.size())}, mask.rows),
          tensor("keys", DType::i64, {static_cast<int64_t>(mask.keys.size())}, mask.keys)};
}

std::string flex_mask(const Sequence& sequence, const LayerRule& rule) {
  std::vector<int64_t> starts;
  for (int64_t b = 0; b < sequence.blocks(); ++b) {
    starts.push_back(sequence.block(b).begin);
  }
  std::vector<std::string> documents;
  for (const Interval& document : sequence.documents()) {
    documents.push_back(join('(', document.begin, ", ", document.end, ')'));
  }
  return join(
      "\"\"\"A block diffusion mask over 2 * LENGTH rows: clean tokens, then corrupted ones.\n\n"
      "With PyTorch:\n\n"
      "    mask_mod = make_mask_mod(device)\n"
      "    block_mask = create_block_mask(mask_mod, None, None, 2 * LENGTH, 2 * LENGTH, device)\n"
      "    out = flex_attention(q, k, v, block_mask=block_mask)\n"
      "\"\"\"\n\n"
      "LENGTH = ",
      sequence.length(), "\nBLOCK_STARTS = ", list_text(starts),
      "\nDOCUMENTS = ", list_text(documents), "\nCLEAN_RULE = \"", rule_word(rule.clean),
      "\"\nWINDOW = ", rule.window, "  # keys, the row's own included; 0: all\n",
      R"python(

def key_ranges():
    """By row of 2 * LENGTH: (clean begin, clean end, corrupted begin, corrupted end)."""
    ends = BLOCK_STARTS[1:] + [LENGTH]
    block = [None] * LENGTH
    for begin, end in zip(BLOCK_STARTS, ends):
        for i in range(begin, end):
            block[i] = (begin, end)
    document = [None] * LENGTH
    for begin, end in DOCUMENTS:
        for i in range(begin, end):
            document[i] = begin
    clean, corrupted = [], []
    for i in range(LENGTH):
        if document[i] is None:  # padding
            clean.append((0, 0, 0, 0))
            corrupted.append((0, 0, 0, 0))
            continue
        begin, end = block[i]
        last = end if CLEAN_RULE == "block_causal" else i + 1
        first = max(document[i], i + 1 - WINDOW) if WINDOW else document[i]
        clean.append((first, last, 0, 0))
        first = max(document[i], begin - (WINDOW - 1)) if WINDOW else document[i]
        corrupted.append((min(first, begin), begin, begin, end))
    return clean + corrupted


_RANGES = key_ranges()


def sees(q, k):
    """Whether row q sees key k, both in [0, 2 * LENGTH)."""
    clean_begin, clean_end, corrupted_begin, corrupted_end = _RANGES[q]
    if k < LENGTH:
        return clean_begin <= k < clean_end
    return corrupted_begin <= k - LENGTH < corrupted_end


def make_mask_mod(device="cpu"):
    """A mask_mod for torch.nn.attention.flex_attention."""
    import torch

    ranges = torch.tensor(_RANGES, dtype=torch.int32, device=device)
    clean_begin, clean_end, corrupted_begin, corrupted_end = ranges.T.contiguous()

    def mask_mod(b, h, q_idx, kv_idx):
        clean = (clean_begin[q_idx] <= kv_idx) & (kv_idx < clean_end[q_idx])
        key = kv_idx - LENGTH
        corrupted = (corrupted_begin[q_idx] <= key) & (key < corrupted_end[q_idx])
        return ((kv_idx < LENGTH) & clean) | ((kv_idx >= LENGTH) & corrupted)

    return mask_mod
)python");
}

}  // namespace bdlm
