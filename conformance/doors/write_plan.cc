// Rank programs to JSON.

#include <nlohmann/json.hpp>

#include "conformance/doors/plan_file.h"

namespace bdlm {
namespace {

using OrderedJson = nlohmann::ordered_json;

OrderedJson pair_json(const Interval& i) {
  return {i.begin, i.end};
}

OrderedJson rows_json(const RowSet& rows) {
  OrderedJson out = OrderedJson::object();
  for (const Stream stream : {Stream::corrupted, Stream::clean}) {
    if (!rows.rows(stream).empty()) {
      out[name(stream)] = OrderedJson::array();
      for (const Interval& i : rows.rows(stream)) {
        out[name(stream)].push_back(pair_json(i));
      }
    }
  }
  return out;
}

OrderedJson bands_json(const std::vector<Band>& bands) {
  OrderedJson out = OrderedJson::array();
  for (const Band& band : bands) {
    OrderedJson json;
    json["query"] = name(band.query_stream);
    json["rows"] = pair_json(band.rows);
    json["key"] = name(band.key_stream);
    json["keys"] = pair_json(band.keys);
    if (band.begin_offset != Band::no_begin) {
      json["begin_offset"] = band.begin_offset;
    }
    if (band.end_offset != Band::no_end) {
      json["end_offset"] = band.end_offset;
    }
    out.push_back(json);
  }
  return out;
}

OrderedJson messages_json(const std::vector<Message>& messages) {
  OrderedJson out = OrderedJson::array();
  for (const Message& message : messages) {
    out.push_back({{"peer", message.peer}, {"rows", rows_json(message.rows)}});
  }
  return out;
}

/// Writes steps; shard maps that are equal get one name.
class StepWriter {
 public:
  OrderedJson operator()(const Attend& s) {
    return {{"step", "attend"},
            {"buffer", s.buffer},
            {"state", s.state},
            {"from_state", s.from_state},
            {"bands", bands_json(s.bands)}};
  }
  OrderedJson operator()(const AttendBackward& s) {
    return {{"step", "attend_backward"}, {"buffer", s.buffer}, {"bands", bands_json(s.bands)}};
  }
  OrderedJson operator()(const Merge& s) {
    return {{"step", "merge"}, {"into", s.into}, {"from", s.from}};
  }
  OrderedJson operator()(const Wait& s) { return {{"step", "wait"}, {"token", s.token}}; }
  OrderedJson operator()(const Gather& s) { return collective("gather", s); }
  OrderedJson operator()(const ReduceScatter& s) { return collective("reduce_scatter", s); }
  OrderedJson operator()(const Exchange& s) { return moving("exchange", s); }
  OrderedJson operator()(const ExchangeBack& s) { return moving("exchange_back", s); }

  const OrderedJson& shards() const { return shards_; }

 private:
  template <class S>
  OrderedJson collective(const char* step, const S& s) {
    return {{"step", step},
            {"token", s.token},
            {"buffer", s.buffer},
            {"shards", name_of(*s.shards)},
            {"padded_rows", s.padded_rows}};
  }
  template <class S>
  OrderedJson moving(const char* step, const S& s) {
    return {{"step", step},
            {"token", s.token},
            {"buffer", s.buffer},
            {"sends", messages_json(s.sends)},
            {"receives", messages_json(s.receives)}};
  }

  std::string name_of(const ShardMap& map) {
    OrderedJson json = OrderedJson::array();
    for (const RowSet& rows : map) {
      json.push_back(rows_json(rows));
    }
    for (const auto& [name, known] : shards_.items()) {
      if (known == json) {
        return name;
      }
    }
    std::string fresh = "shards" + std::to_string(shards_.size());
    shards_[fresh] = json;
    return fresh;
  }

  OrderedJson shards_ = OrderedJson::object();
};

}  // namespace

std::string write_plan(const PlanFile& file) {
  OrderedJson json;
  json["format"] = "bdlm-rank-programs-1";
  OrderedJson sequence;
  sequence["length"] = file.sequence.length();
  sequence["block_starts"] = OrderedJson::array();
  for (int64_t b = 0; b < file.sequence.blocks(); ++b) {
    sequence["block_starts"].push_back(file.sequence.block(b).begin);
  }
  sequence["documents"] = OrderedJson::array();
  for (const Interval& document : file.sequence.documents()) {
    sequence["documents"].push_back(pair_json(document));
  }
  json["sequence"] = sequence;
  json["mask"] = {
      {"clean_rule", file.rule.clean == CleanRule::block_causal ? "block_causal" : "token_causal"},
      {"window", file.rule.window}};
  json["kv_row_bytes"] = file.kv_row_bytes;
  json["gradient_row_bytes"] = file.gradient_row_bytes;
  StepWriter writer;
  OrderedJson ranks = OrderedJson::array();
  for (const RankPlan& plan : file.plans) {
    OrderedJson rank;
    rank["rank"] = plan.rank;
    rank["rows"] = rows_json(plan.rows);
    rank["buffers"] = OrderedJson::array();
    for (size_t b = 1; b < plan.buffers.size(); ++b) {
      rank["buffers"].push_back(rows_json(plan.buffers[b]));
    }
    rank["states"] = plan.states;
    for (const auto& [key, steps] :
         {std::pair{"forward", &plan.forward}, std::pair{"backward", &plan.backward}}) {
      rank[key] = OrderedJson::array();
      for (const Step& step : *steps) {
        rank[key].push_back(std::visit(writer, step));
      }
    }
    const SentBytes sent = sent_bytes(file, plan);
    rank["sent_bytes"] = {{"forward", sent.forward}, {"backward", sent.backward}};
    ranks.push_back(rank);
  }
  json["shards"] = writer.shards();
  json["ranks"] = ranks;
  return json.dump(1) + "\n";
}

}  // namespace bdlm
