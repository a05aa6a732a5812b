#include "conformance/doors/plan_file.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "reference/base/error.h"
#include "reference/base/text.h"

namespace bdlm {
namespace {

constexpr int64_t most_positions = int64_t{1} << 30;
constexpr int64_t most_blocks = int64_t{1} << 22;
constexpr int64_t most_ranks = 4096;
constexpr int64_t most_buffers = 64;
constexpr int64_t most_tokens = int64_t{1} << 20;
constexpr int64_t most_row_bytes = int64_t{1} << 32;

Interval interval_of(const JsonView& at, int64_t length) {
  const std::vector<JsonView> ends = as_array(at);
  require(ends.size() == 2, place(at), " has ", ends.size(),
          " numbers; an interval is [begin, end)");
  const int64_t begin = as_int(ends[0], 0, length);
  return {begin, as_int(ends[1], begin, length)};
}

/// Ascending, disjoint and not empty; neighbours are joined.
IntervalSet intervals_of(const JsonView& object, const char* key, int64_t length) {
  std::vector<Interval> out;
  if (!find(object, key)) {
    return {};
  }
  for (const JsonView& at : get_array(object, key)) {
    const Interval rows = interval_of(at, length);
    require(!rows.empty(), place(at), " is ", rows, ", which is empty");
    require(out.empty() || out.back().end <= rows.begin, place(at), " is ", rows,
            ", which overlaps or precedes the one before it; rows ascend and occur once");
    out.push_back(rows);
  }
  return unite(std::move(out));
}

RowSet rows_of(const JsonView& at, int64_t length) {
  reject_unknown_keys(at, {"corrupted", "clean"});
  const IntervalSet corrupted = intervals_of(at, "corrupted", length);
  return {corrupted, intervals_of(at, "clean", length)};
}

Stream stream_of(const JsonView& at, const char* key) {
  const std::string text = get_string(at, key);
  require(text == "clean" || text == "corrupted", place(get(at, key)), " is '", printable(text, 40),
          "'; allowed are clean, corrupted");
  return text == "clean" ? Stream::clean : Stream::corrupted;
}

Sequence sequence_of(const JsonView& json) {
  const JsonView at = get_object(json, "sequence");
  reject_unknown_keys(at, {"length", "block_size", "block_starts", "documents"});
  const int64_t length = get_int(at, "length", 1, most_positions);
  std::vector<Interval> documents;
  if (find(at, "documents")) {
    for (const JsonView& document : get_array(at, "documents")) {
      documents.push_back(interval_of(document, length));
    }
  }
  const bool uniform = find(at, "block_size").has_value();
  require(uniform != find(at, "block_starts").has_value(), place(at),
          " must have one of the keys 'block_size' and 'block_starts'");
  try {
    if (uniform) {
      const int64_t size = get_int(at, "block_size", 1, length);
      require(length / size <= most_blocks, place(get(at, "block_size")), " is ", size,
              ", which makes more than ", most_blocks, " blocks");
      return Sequence::uniform(length, size, documents);
    }
    std::vector<int64_t> starts;
    for (const JsonView& start : get_array(at, "block_starts")) {
      starts.push_back(as_int(start, 0, length));
    }
    return Sequence::with_blocks(length, starts, documents);
  } catch (const InputError& error) {
    const std::string text = error.what();
    throw InputError(text.rfind(at.source, 0) == 0 ? text : join(place(at), ": ", text));
  }
}

LayerRule rule_of(const JsonView& json) {
  const JsonView at = get_object(json, "mask");
  reject_unknown_keys(at, {"clean_rule", "window"});
  const std::string text = get_string(at, "clean_rule");
  require(text == "block_causal" || text == "token_causal", place(get(at, "clean_rule")), " is '",
          printable(text, 40), "'; allowed are block_causal, token_causal");
  return {text == "block_causal" ? CleanRule::block_causal : CleanRule::token_causal,
          get_int_or(at, "window", 0, most_positions, 0)};
}

/// What all ranks' steps may refer to.
struct Context {
  int64_t length = 0;
  int64_t ranks = 0;
  std::map<std::string, std::shared_ptr<const ShardMap>> shards;
};

std::vector<Band> bands_of(const JsonView& step, const Context& context) {
  std::vector<Band> out;
  for (const JsonView& at : get_array(step, "bands")) {
    reject_unknown_keys(at, {"query", "rows", "key", "keys", "begin_offset", "end_offset"});
    Band band;
    band.query_stream = stream_of(at, "query");
    band.rows = interval_of(get(at, "rows"), context.length);
    band.key_stream = stream_of(at, "key");
    band.keys = interval_of(get(at, "keys"), context.length);
    band.begin_offset =
        get_int_or(at, "begin_offset", -most_positions, most_positions, Band::no_begin);
    band.end_offset = get_int_or(at, "end_offset", -most_positions, most_positions, Band::no_end);
    require(!band.rows.empty(), place(get(at, "rows")), " is ", band.rows, ", which is empty");
    out.push_back(band);
  }
  return out;
}

std::vector<Message> messages_of(const JsonView& step, const char* key, const Context& context) {
  std::vector<Message> out;
  for (const JsonView& at : get_array(step, key)) {
    reject_unknown_keys(at, {"peer", "rows"});
    const auto peer = static_cast<int>(get_int(at, "peer", 0, context.ranks - 1));
    out.push_back({peer, rows_of(get_object(at, "rows"), context.length)});
  }
  return out;
}

template <class Collective>
Collective collective_of(const JsonView& at, int token, int buffer, const Context& context) {
  reject_unknown_keys(at, {"step", "token", "buffer", "shards", "padded_rows"});
  const std::string name = get_string(at, "shards");
  const auto found = context.shards.find(name);
  require(found != context.shards.end(), place(get(at, "shards")), " is '", printable(name, 60),
          "', which key 'shards' of the file does not define");
  return {token, buffer, found->second, get_int(at, "padded_rows", 0, 2 * most_positions)};
}

template <class Moving>
Moving exchange_of(const JsonView& at, int token, int buffer, const Context& context) {
  reject_unknown_keys(at, {"step", "token", "buffer", "sends", "receives"});
  return {token, buffer, messages_of(at, "sends", context), messages_of(at, "receives", context)};
}

Step step_of(const JsonView& at, const Context& context) {
  const std::string kind = get_string(at, "step");
  const auto token = [&] { return static_cast<int>(get_int(at, "token", 0, most_tokens)); };
  const auto number = [&](const char* key) {
    return static_cast<int>(get_int(at, key, 0, most_buffers - 1));
  };
  if (kind == "attend") {
    reject_unknown_keys(at, {"step", "buffer", "state", "from_state", "bands"});
    return Attend{number("buffer"),
                  static_cast<int>(get_int_or(at, "state", 0, most_buffers - 1, 0)),
                  get_bool(at, "from_state"), bands_of(at, context)};
  }
  if (kind == "attend_backward") {
    reject_unknown_keys(at, {"step", "buffer", "bands"});
    return AttendBackward{number("buffer"), bands_of(at, context)};
  }
  if (kind == "merge") {
    reject_unknown_keys(at, {"step", "into", "from"});
    return Merge{number("into"), number("from")};
  }
  if (kind == "wait") {
    reject_unknown_keys(at, {"step", "token"});
    return Wait{token()};
  }
  if (kind == "gather") {
    return collective_of<Gather>(at, token(), number("buffer"), context);
  }
  if (kind == "reduce_scatter") {
    return collective_of<ReduceScatter>(at, token(), number("buffer"), context);
  }
  if (kind == "exchange") {
    return exchange_of<Exchange>(at, token(), number("buffer"), context);
  }
  require(kind == "exchange_back", place(get(at, "step")), " is '", printable(kind, 40),
          "'; known are attend, attend_backward, merge, wait, gather, reduce_scatter, exchange, "
          "exchange_back");
  return exchange_of<ExchangeBack>(at, token(), number("buffer"), context);
}

std::vector<Step> steps_of(const JsonView& rank, const char* key, const Context& context) {
  std::vector<Step> out;
  for (const JsonView& at : get_array(rank, key)) {
    out.push_back(step_of(at, context));
  }
  return out;
}

RankPlan plan_of(const JsonView& at, int rank, const Context& context) {
  RankPlan plan;
  plan.scheme = "file";
  plan.rank = rank;
  plan.ranks = static_cast<int>(context.ranks);
  plan.rows = rows_of(get_object(at, "rows"), context.length);
  plan.buffers = {plan.rows};
  if (find(at, "buffers")) {
    for (const JsonView& buffer : get_array(at, "buffers")) {
      plan.buffers.push_back(rows_of(buffer, context.length));
    }
    require(static_cast<int64_t>(plan.buffers.size()) <= most_buffers, place(get(at, "buffers")),
            " has ", plan.buffers.size() - 1, " buffers; allowed are ", most_buffers - 1);
  }
  plan.states = static_cast<int>(get_int_or(at, "states", 1, most_buffers, 1));
  plan.forward = steps_of(at, "forward", context);
  plan.backward = steps_of(at, "backward", context);
  return plan;
}

}  // namespace

PlanFile parse_plan(const JsonView& json) {
  reject_unknown_keys(json, {"format", "about", "sequence", "mask", "kv_row_bytes",
                             "gradient_row_bytes", "shards", "ranks"});
  const std::string format = get_string(json, "format");
  require(format == "bdlm-rank-programs-1", place(get(json, "format")), " is '",
          printable(format, 40), "'; allowed is bdlm-rank-programs-1");
  PlanFile out;
  out.sequence = sequence_of(json);
  out.rule = rule_of(json);
  out.kv_row_bytes = get_int_or(json, "kv_row_bytes", 1, most_row_bytes, 1);
  out.gradient_row_bytes = get_int_or(json, "gradient_row_bytes", 1, most_row_bytes, 1);
  const std::vector<JsonView> ranks = get_array(json, "ranks");
  require(!ranks.empty() && static_cast<int64_t>(ranks.size()) <= most_ranks,
          place(get(json, "ranks")), " has ", ranks.size(), " ranks; allowed are 1 to ",
          most_ranks);
  Context context{out.sequence.length(), static_cast<int64_t>(ranks.size()), {}};
  if (find(json, "shards")) {
    for (const auto& [name, map] : members(get_object(json, "shards"))) {
      ShardMap shards;
      for (const JsonView& rows : as_array(map)) {
        shards.push_back(rows_of(rows, context.length));
      }
      require(shards.size() == ranks.size(), place(map), " has the rows of ", shards.size(),
              " ranks; the file has ", ranks.size());
      context.shards[name] = std::make_shared<const ShardMap>(std::move(shards));
    }
  }
  std::vector<std::optional<RankPlan>> plans(ranks.size());
  out.declared.resize(ranks.size());
  for (const JsonView& at : ranks) {
    reject_unknown_keys(at,
                        {"rank", "rows", "buffers", "states", "forward", "backward", "sent_bytes"});
    const auto rank = static_cast<int>(get_int(at, "rank", 0, context.ranks - 1));
    require(!plans[rank].has_value(), place(get(at, "rank")), " is ", rank,
            ", which occurs a second time");
    plans[rank] = plan_of(at, rank, context);
    if (find(at, "sent_bytes")) {
      const JsonView sent = get_object(at, "sent_bytes");
      reject_unknown_keys(sent, {"forward", "backward"});
      constexpr int64_t most = std::numeric_limits<int64_t>::max();
      out.declared[rank] = {get_int(sent, "forward", 0, most), get_int(sent, "backward", 0, most)};
    }
  }
  for (std::optional<RankPlan>& plan : plans) {
    out.plans.push_back(std::move(*plan));
  }
  return out;
}

PlanFile read_plan(const std::string& path) {
  const Json document = read_json_file(path);
  return parse_plan(view(document, printable(path, 400)));
}

SentBytes sent_bytes(const PlanFile& file, const RankPlan& plan) {
  const auto rows_in = [](const std::vector<Message>& messages) {
    int64_t rows = 0;
    for (const Message& message : messages) {
      rows += message.rows.size();
    }
    return rows;
  };
  const auto phase = [&](const std::vector<Step>& steps) {
    int64_t bytes = 0;
    for (const Step& step : steps) {
      if (const auto* gather = std::get_if<Gather>(&step)) {
        bytes += gather->padded_rows * (plan.ranks - 1) * file.kv_row_bytes;
      } else if (const auto* scatter = std::get_if<ReduceScatter>(&step)) {
        bytes += scatter->padded_rows * (plan.ranks - 1) * file.gradient_row_bytes;
      } else if (const auto* exchange = std::get_if<Exchange>(&step)) {
        bytes += rows_in(exchange->sends) * file.kv_row_bytes;
      } else if (const auto* back = std::get_if<ExchangeBack>(&step)) {
        bytes += rows_in(back->sends) * file.gradient_row_bytes;
      }
    }
    return bytes;
  };
  return {phase(plan.forward), phase(plan.backward)};
}

}  // namespace bdlm
