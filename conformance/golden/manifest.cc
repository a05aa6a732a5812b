#include "conformance/golden/manifest.h"

#include <nlohmann/json.hpp>

#include "conformance/golden/golden_file.h"
#include "conformance/golden/sha256.h"
#include "conformance/judge/contract.h"

namespace bdlm {
namespace {

using OrderedJson = nlohmann::ordered_json;

template <class T>
OrderedJson tensor_json(const std::vector<T>& tensors) {
  OrderedJson out = OrderedJson::array();
  for (const T& t : tensors) {
    OrderedJson json;
    json["name"] = t.name;
    if constexpr (std::is_same_v<T, InputTensor>) {
      json["dtype"] = name(t.dtype);
    } else {
      json["dtype"] = name(DType::f64);
    }
    json["shape"] = t.shape;
    out.push_back(json);
  }
  return out;
}

std::string inputs_digest(const GoldenVector& vector) {
  Sha256 digest;
  for (const InputTensor& t : vector.inputs) {
    const std::vector<std::byte> bytes = bytes_of(t);
    digest.add(bytes.data(), bytes.size());
  }
  return digest.hex();
}

std::string outputs_digest(const GoldenVector& vector) {
  Sha256 digest;
  for (const OutputTensor& t : vector.outputs) {
    digest.add(t.value.data(), t.value.size() * sizeof(double));
  }
  return digest.hex();
}

/// The ranks at which each scheme can divide the sequence: there the same values hold.
OrderedJson schemes_json(const Sequence& sequence) {
  OrderedJson out;
  for (const Scheme scheme : {Scheme::monolithic, Scheme::cp, Scheme::bp, Scheme::csbp}) {
    std::vector<int> ranks;
    for (const int p : {1, 2, 3, 4, 8}) {
      const int64_t parts = scheme == Scheme::cp ? sequence.length() : sequence.blocks();
      if (p <= parts && (p == 1 || scheme != Scheme::monolithic)) {
        ranks.push_back(p);
      }
    }
    out[name(scheme)] = ranks;
  }
  return out;
}

OrderedJson sequence_json(const Sequence& sequence) {
  OrderedJson out;
  out["length"] = sequence.length();
  out["block_starts"] = OrderedJson::array();
  for (int64_t b = 0; b < sequence.blocks(); ++b) {
    out["block_starts"].push_back(sequence.block(b).begin);
  }
  out["documents"] = OrderedJson::array();
  for (const Interval& document : sequence.documents()) {
    out["documents"].push_back({document.begin, document.end});
  }
  return out;
}

const char* clean_word(CleanRule rule) {
  return rule == CleanRule::block_causal ? "block_causal" : "token_causal";
}

/// Runs of rows that see the same keys: [stream, first row, end, stream of the keys, begin, end],
/// streams 0 clean, 1 corrupted.
OrderedJson intervals_json(const Sequence& sequence, const LayerRule& rule) {
  OrderedJson out = OrderedJson::array();
  for (const Stream query : {Stream::clean, Stream::corrupted}) {
    for (const Stream key : {Stream::clean, Stream::corrupted}) {
      for (int64_t row = 0; row < sequence.length();) {
        const Interval keys = visible(sequence, rule, query, row, key);
        const int64_t first = row;
        while (row < sequence.length() && visible(sequence, rule, query, row, key) == keys) {
          ++row;
        }
        if (!keys.empty()) {
          out.push_back(
              {static_cast<int>(query), first, row, static_cast<int>(key), keys.begin, keys.end});
        }
      }
    }
  }
  return out;
}

void add_details(OrderedJson& json, const AttentionVector& v, const GoldenVector& vector) {
  const Sequence& sequence = v.layout.shape.sequence;
  json["data"] = name(v.data);
  json["scale"] = std::stod(vector.parameters.at("scale"));
  json["schemes"] = schemes_json(sequence);
  json["decomposition"] = {{"scheme", name(v.layout.scheme)}, {"ranks", v.layout.ranks}};
  OrderedJson mask = sequence_json(sequence);
  mask["clean_rule"] = clean_word(v.layout.rule.clean);
  mask["window"] = v.layout.rule.window;
  json["mask"] = mask;
  json["intervals"] = intervals_json(sequence, v.layout.rule);
}

void add_details(OrderedJson& json, const MergeVector& v, const GoldenVector&) {
  json["data"] = name(v.kind);
}

void add_details(OrderedJson& json, const CrossEntropyVector& v, const GoldenVector&) {
  json["data"] = "gauss";
  json["factor"] = v.factor;
  json["softcap"] = v.softcap;
  json["excluded"] = v.excluded;
  json["upstream"] = v.upstream;
}

void add_details(OrderedJson& json, const StepVector& v, const GoldenVector&) {
  const StepSettings& s = v.settings;
  const DenseConfig& c = s.config;
  json["data"] = "gauss";
  json["schemes"] = schemes_json(s.sequence);
  json["mask"] = sequence_json(s.sequence);
  OrderedJson layers = OrderedJson::array();
  for (const LayerRule& rule : c.rules) {
    layers.push_back({{"clean_rule", clean_word(rule.clean)}, {"window", rule.window}});
  }
  json["model"] = {{"layers", layers},
                   {"hidden", c.hidden},
                   {"q_heads", c.q_heads},
                   {"kv_heads", c.kv_heads},
                   {"head_dim", c.head_dim},
                   {"mlp", c.mlp},
                   {"vocab", c.vocab},
                   {"tied", c.tied},
                   {"qk_norm", c.qk_norm},
                   {"rope_theta", c.rope_theta},
                   {"rms_eps", c.rms_eps},
                   {"softcap", c.softcap},
                   {"excluded", c.excluded_logit}};
  json["objective"] = {{"name", name(s.objective)},
                       {"mask_token", s.mask_token},
                       {"supervision", name(s.supervision)},
                       {"clean_loss", s.clean_loss}};
}

}  // namespace

OrderedJson manifest_json(const GoldenCase& c, const GoldenVector& vector) {
  OrderedJson json;
  json["id"] = c.id;
  json["family"] = c.family();
  json["file"] =
      c.stored ? OrderedJson(join(c.family(), '/', c.id, ".safetensors")) : OrderedJson(nullptr);
  json["sha256"] = nullptr;
  json["inputs_sha256"] = inputs_digest(vector);
  json["outputs_sha256"] = outputs_digest(vector);
  json["contract"] = c.contract;
  json["seed"] = c.seed;
  json["flags"] = c.flags;
  json["inputs"] = tensor_json(vector.inputs);
  json["outputs"] = tensor_json(vector.outputs);
  std::visit([&](const auto& what) { add_details(json, what, vector); }, c.what);
  return json;
}

std::string manifest_text(const std::vector<OrderedJson>& entries) {
  OrderedJson json;
  json["format"] = "bdlm-golden-1";
  json["contracts"] = OrderedJson::object();
  for (const std::string& contract : builtin_contract_names()) {
    json["contracts"][contract] = OrderedJson::parse(write_contract(builtin_contract(contract)));
  }
  json["flags"] = OrderedJson::object();
  for (const GoldenFlag& flag : golden_flags()) {
    json["flags"][flag.name] = {
        {"class", flag.kind}, {"what_goes_wrong", flag.what_goes_wrong}, {"effect", flag.effect}};
  }
  // A line for each vector, so that a change is a line.
  std::string text = json.dump(1);
  text.erase(text.size() - 2);  // "\n}"
  text += ",\n \"vectors\": [";
  for (size_t i = 0; i < entries.size(); ++i) {
    text += join(i == 0 ? "" : ",", "\n  ", entries[i].dump());
  }
  return text + "\n ]\n}\n";
}

}  // namespace bdlm
