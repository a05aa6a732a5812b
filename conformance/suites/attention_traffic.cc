#include "conformance/suites/attention_traffic.h"

#include "reference/base/error.h"

namespace bdlm {

Architecture attention_model(const std::vector<LayerRule>& rules, const AttentionShape& shape) {
  Architecture model;
  model.name = "attention layers";
  // What the ledger does not read, but a model has.
  model.hidden = model.mlp = model.vocab = 1;
  model.rms_eps = 1e-6;
  for (const LayerRule& rule : rules) {
    LayerShape layer;
    layer.kind = rule.window > 0 ? LayerKind::sliding : LayerKind::full;
    layer.window = rule.window;
    layer.q_heads = shape.q_heads;
    layer.kv_heads = shape.kv_heads;
    layer.head_dim = shape.head_dim;
    model.layers.push_back(layer);
  }
  return model;
}

std::vector<int64_t> ledger_bytes(const LayoutCase& layout, const AttentionShape& shape,
                                  const ElementBytes& bytes) {
  const Architecture one = attention_model({layout.rule}, shape);
  LedgerOptions options;
  options.scheme = layout.scheme;
  options.ranks = layout.ranks;
  options.blocks_of_rank = layout.ownership().blocks;
  options.bytes = bytes;
  options.checkpointing = Checkpointing::none;
  options.clean_rule = layout.rule.clean;
  const Ledger ledger = make_ledger(one, layout.shape.sequence, options);
  std::vector<int64_t> out;
  for (int r = 0; r < layout.ranks; ++r) {
    out.push_back(ledger.bytes_of_rank(r));
  }
  return out;
}

std::string compare_bytes(const std::vector<int64_t>& expected,
                          const std::vector<std::vector<LogEntry>>& logs) {
  for (size_t r = 0; r < logs.size(); ++r) {
    int64_t sent = 0;
    for (const LogEntry& entry : logs[r]) {
      if (entry.purpose == "attention" && entry.operation != Operation::receive) {
        sent += entry.bytes;
      }
    }
    if (sent != expected[r]) {
      return join("rank ", r, " sent ", sent, " bytes where the ledger has ", expected[r]);
    }
  }
  return "";
}

}  // namespace bdlm
