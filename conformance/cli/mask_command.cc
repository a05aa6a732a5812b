// bdlm mask: a layer's mask in the form that a kernel takes.

#include <iostream>

#include "conformance/cli/command.h"
#include "conformance/cli/options.h"
#include "conformance/doors/mask_export.h"
#include "reference/base/error.h"
#include "reference/base/text.h"

namespace bdlm {
namespace {

struct MaskOptions {
  int64_t length = 0;
  int64_t block = 0;
  int64_t window = 0;
  std::vector<std::string> documents;
  std::string clean = "block-causal";
  std::string format = "intervals";
  std::string part;  // empty: corrupted-corrupted
  std::string out;
};

CleanRule parse_clean(const std::string& text) {
  require(text == "block-causal" || text == "token-causal", "--clean-rule is '", printable(text),
          "'; allowed are block-causal, token-causal");
  return text == "block-causal" ? CleanRule::block_causal : CleanRule::token_causal;
}

int mask(const MaskOptions& o) {
  const MaskFormat format = parse_mask_format(o.format);
  const LayerRule rule{parse_clean(o.clean), o.window};
  require(o.part.empty() || format == MaskFormat::cu_seqlens,
          "--part is of the format cu_seqlens; the others hold every part");
  require(o.length / o.block < int64_t{1} << 26, "--length ", o.length,
          " has more than 2^26 blocks of ", o.block, "; larger blocks make fewer");
  const Sequence sequence = Sequence::uniform(o.length, o.block, parse_documents(o.documents));
  TensorMetadata metadata{{"format", o.format},
                          {"length", join(o.length)},
                          {"block", join(o.block)},
                          {"window", join(o.window)},
                          {"clean_rule", o.clean}};
  switch (format) {
    case MaskFormat::dense:
      write_safetensors(o.out, dense_mask(sequence, rule), metadata);
      break;
    case MaskFormat::intervals:
      write_safetensors(o.out, interval_mask(sequence, rule), metadata);
      break;
    case MaskFormat::flex:
      write_file(o.out, flex_mask(sequence, rule));
      break;
    case MaskFormat::cu_seqlens: {
      const std::string part = o.part.empty() ? "corrupted-corrupted" : o.part;
      const PackedMask packed = packed_mask(sequence, rule, parse_mask_part(part));
      metadata["part"] = part;
      metadata["causal"] = packed.causal ? "true" : "false";
      metadata["window_left"] = join(packed.window_left);
      write_safetensors(o.out, packed_tensors(packed), metadata);
      break;
    }
  }
  return 0;
}

}  // namespace

void add_mask_command(CLI::App& app, int& status) {
  auto options = std::make_shared<MaskOptions>();
  CLI::App* command = app.add_subcommand("mask", "Write a layer's mask for a kernel of your own");
  constexpr int64_t most = int64_t{1} << 30;
  add_integer(*command, "--length", options->length, 1, most, "Tokens")->required();
  add_integer(*command, "--block", options->block, 1, most, "Block size")->required();
  add_integer(*command, "--window", options->window, 0, most,
              "Keys of a sliding window, the row's own included; 0, the default, is a full layer");
  add_words(*command, "--documents", options->documents, "Packed documents: 0:5,5:16");
  add_text(*command, "--clean-rule", options->clean,
           "block-causal (the default) or token-causal clean rows");
  add_text(*command, "--format", options->format,
           "intervals (the default), dense, flex (Python, FlexAttention) or cu_seqlens");
  add_text(*command, "--part", options->part,
           "With cu_seqlens: rows and keys, corrupted-corrupted (the default) or clean-clean");
  add_text(*command, "--out", options->out, "The file to write")->required();
  command->callback([options, &status] { status = mask(*options); });
}

}  // namespace bdlm
