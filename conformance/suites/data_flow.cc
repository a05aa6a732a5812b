#include "conformance/suites/data_flow.h"

#include <optional>
#include <set>

namespace bdlm {
namespace {

constexpr Stream streams[] = {Stream::corrupted, Stream::clean};

bool same_rows(const RowSet& a, const RowSet& b) {
  return a.segments() == b.segments();
}

bool holds(const RowSet& outer, const RowSet& inner) {
  for (const Segment& segment : inner.segments()) {
    if (!outer.contains(segment.stream, segment.rows)) {
      return false;
    }
  }
  return true;
}

/// Whether `parts` together are `whole`, no row twice.
template <class RowSets>
bool partitions(const RowSet& whole, const RowSets& parts) {
  int64_t total = 0;
  for (const RowSet& part : parts) {
    if (!holds(whole, part)) {
      return false;
    }
    total += part.size();
  }
  if (total != whole.size()) {
    return false;
  }
  for (const Stream stream : streams) {
    std::vector<Interval> all;
    for (const RowSet& part : parts) {
      all.insert(all.end(), part.rows(stream).begin(), part.rows(stream).end());
    }
    if (unite(std::move(all)) != whole.rows(stream)) {
      return false;
    }
  }
  return true;
}

std::vector<RowSet> rows_of(const std::vector<Message>& messages) {
  std::vector<RowSet> out;
  for (const Message& message : messages) {
    out.push_back(message.rows);
  }
  return out;
}

}  // namespace

/// One rank's steps, followed in order.
class RankFlow {
 public:
  RankFlow(const RankPlan& plan, DataFlow& flow)
      : plan_(plan),
        flow_(flow),
        arrived_(plan.buffers.size(), false),
        gradient_(plan.buffers.size(), Gradient::none),
        attended_(plan.states),
        merged_(plan.states, true) {
    arrived_[0] = true;
  }

  void run() {
    for (const auto* steps : {&plan_.forward, &plan_.backward}) {
      for (const Step& step : *steps) {
        std::visit(*this, step);
      }
      for (const auto& [token, buffer] : in_flight_) {
        violation("the transfer of token ", token, " is never waited for");
      }
      in_flight_.clear();
      phase_ = "backward";
    }
    for (size_t b = 1; b < gradient_.size(); ++b) {
      if (gradient_[b] == Gradient::held) {
        violation("the gradients of buffer ", b, " never return to their owners");
      }
    }
    for (size_t s = 1; s < merged_.size(); ++s) {
      if (!merged_[s]) {
        violation("state ", s, " is never merged into state 0");
      }
    }
    if (transfers_ != flow_.transfers_.size()) {
      violation("starts ", transfers_, " transfers where rank 0 starts ", flow_.transfers_.size());
    }
  }

  void operator()(const Attend& step) {
    if (!valid_buffer(step.buffer) || step.state < 0 || step.state >= plan_.states) {
      return violation("attends with buffer ", step.buffer, ", state ", step.state,
                       "; neither may be outside the plan's");
    }
    check_keys(step.buffer, step.bands);
    auto& before = attended_[step.state];
    std::map<Stream, std::vector<Interval>> rows;
    for (const Band& band : step.bands) {
      rows[band.query_stream].push_back(band.rows);
    }
    for (auto& [stream, parts] : rows) {
      const IntervalSet now = unite(parts);
      if (!step.from_state && !intersect(now, before[stream]).empty()) {
        violation("attends rows of the ", name(stream), " stream afresh that already have a state");
      }
      parts.insert(parts.end(), before[stream].begin(), before[stream].end());
      before[stream] = unite(parts);
    }
    merged_[step.state] = step.state == 0;
  }

  void operator()(const Merge& step) {
    if (step.into < 0 || step.into >= plan_.states || step.from < 0 || step.from >= plan_.states) {
      return violation("merges state ", step.from, " into ", step.into, " of ", plan_.states);
    }
    if (merged_[step.from]) {
      violation("merges state ", step.from, ", which holds nothing new");
    }
    merged_[step.from] = true;
    merged_[step.into] = step.into == 0;
    for (auto& [stream, rows] : attended_[step.from]) {
      std::vector<Interval> all = attended_[step.into][stream];
      all.insert(all.end(), rows.begin(), rows.end());
      attended_[step.into][stream] = unite(std::move(all));
    }
  }

  void operator()(const AttendBackward& step) {
    if (!valid_buffer(step.buffer)) {
      return violation("goes backward with buffer ", step.buffer, ", which the plan lacks");
    }
    check_keys(step.buffer, step.bands);
    if (step.buffer != 0) {
      if (gradient_[step.buffer] == Gradient::returned) {
        violation("adds to the gradients of buffer ", step.buffer, " after their return");
      }
      gradient_[step.buffer] = Gradient::held;
    }
  }

  void operator()(const Gather& step) {
    if (!start(step.token, step.buffer)) {
      return;
    }
    collective({Kind::gather, step.shards, step.padded_rows});
    if (!partitions(plan_.buffers[step.buffer], *step.shards)) {
      violation("gathers shards that are not the rows of buffer ", step.buffer, ", each once");
    }
  }

  void operator()(const ReduceScatter& step) {
    if (!start(step.token, step.buffer)) {
      return;
    }
    collective({Kind::reduce_scatter, step.shards, step.padded_rows});
    give_back(step.buffer);
    if (!partitions(plan_.buffers[step.buffer], *step.shards)) {
      violation("scatters shards that are not the rows of buffer ", step.buffer, ", each once");
    }
  }

  void operator()(const Exchange& step) {
    if (!start(step.token, step.buffer)) {
      return;
    }
    share({Kind::exchange, nullptr, 0});
    messages(step.sends, step.receives, plan_.rows, plan_.buffers[step.buffer]);
    if (!partitions(plan_.buffers[step.buffer], rows_of(step.receives))) {
      violation("receives rows that are not those of buffer ", step.buffer, ", each once");
    }
  }

  void operator()(const ExchangeBack& step) {
    if (!start(step.token, step.buffer)) {
      return;
    }
    share({Kind::exchange_back, nullptr, 0});
    messages(step.sends, step.receives, plan_.buffers[step.buffer], plan_.rows);
    give_back(step.buffer);
    if (!partitions(plan_.buffers[step.buffer], rows_of(step.sends))) {
      violation("returns rows that are not those of buffer ", step.buffer, ", each once");
    }
  }

  void operator()(const Wait& step) {
    const auto it = in_flight_.find(step.token);
    if (it == in_flight_.end()) {
      return violation("waits for token ", step.token, ", under which nothing is in flight");
    }
    arrived_[it->second] = true;
    in_flight_.erase(it);
  }

 private:
  using Kind = DataFlow::Kind;
  enum class Gradient { none, held, returned };

  template <class... Parts>
  void violation(const Parts&... parts) {
    flow_.out_.add("rank ", plan_.rank, " ", phase_, ": ", parts...);
  }

  bool valid_buffer(int b) const { return b >= 0 && b < static_cast<int>(plan_.buffers.size()); }

  void check_keys(int buffer, const std::vector<Band>& bands) {
    if (!arrived_[buffer]) {
      violation("attends keys of buffer ", buffer, " before they have arrived");
    }
    for (const Band& band : bands) {
      const Band b = trim(band);
      if (b.rows.empty()) {
        continue;
      }
      const Interval keys{b.keys_of(b.rows.begin).begin, b.keys_of(b.rows.end - 1).end};
      if (!plan_.buffers[buffer].contains(b.key_stream, keys)) {
        violation("attends ", name(b.key_stream), " keys ", keys, ", which buffer ", buffer,
                  " does not hold");
      }
    }
  }

  bool start(int token, int buffer) {
    if (buffer < 1 || !valid_buffer(buffer)) {
      violation("moves rows of buffer ", buffer, "; only buffers from 1 on are moved");
      return false;
    }
    if (!in_flight_.emplace(token, buffer).second) {
      violation("starts token ", token, " twice");
      return false;
    }
    return true;
  }

  void give_back(int buffer) {
    if (gradient_[buffer] == Gradient::returned) {
      violation("returns the gradients of buffer ", buffer, " twice");
    }
    gradient_[buffer] = Gradient::returned;
  }

  void collective(const DataFlow::Shared& mine) {
    const ShardMap& shards = *mine.shards;
    if (static_cast<int>(shards.size()) != plan_.ranks) {
      return violation("a collective has ", shards.size(), " shards for ", plan_.ranks, " ranks");
    }
    if (!holds(plan_.rows, shards[plan_.rank])) {
      violation("its shard of a collective has rows that it does not hold");
    }
    if (flow_.ranks_seen_ == 0) {
      for (const RowSet& shard : shards) {
        if (shard.size() > mine.padded_rows) {
          violation("a shard of ", shard.size(), " rows is padded to ", mine.padded_rows);
        }
      }
    }
    share(mine);
  }

  /// A transfer that every rank starts: it must be that of the first rank.
  void share(const DataFlow::Shared& mine) {
    const size_t index = transfers_++;
    if (flow_.ranks_seen_ == 0) {
      flow_.transfers_.push_back(mine);
      return;
    }
    if (index >= flow_.transfers_.size()) {
      return;  // reported by their number
    }
    const DataFlow::Shared& first = flow_.transfers_[index];
    bool same = first.kind == mine.kind && first.padded_rows == mine.padded_rows;
    if (same && first.shards != mine.shards) {
      same = std::equal(mine.shards->begin(), mine.shards->end(), first.shards->begin(),
                        first.shards->end(), same_rows);
    }
    if (!same) {
      violation("transfer ", index, " differs from that of rank 0");
    }
  }

  void messages(const std::vector<Message>& sends, const std::vector<Message>& receives,
                const RowSet& from, const RowSet& to) {
    std::set<int> peers;
    for (const Message& message : sends) {
      if (message.peer == plan_.rank || message.peer < 0 || message.peer >= plan_.ranks ||
          !peers.insert(message.peer).second) {
        violation("sends to rank ", message.peer, "; a peer is another rank, named once");
      }
      if (!holds(from, message.rows)) {
        violation("sends rank ", message.peer, " rows that it does not hold");
      }
      flow_.sent_[{plan_.rank, message.peer}].push_back(message.rows);
    }
    for (const Message& message : receives) {
      if (!holds(to, message.rows)) {
        violation("receives from rank ", message.peer, " rows for which it has no place");
      }
      flow_.expected_[{message.peer, plan_.rank}].push_back(message.rows);
    }
  }

  const RankPlan& plan_;
  DataFlow& flow_;
  const char* phase_ = "forward";
  std::vector<bool> arrived_;
  std::vector<Gradient> gradient_;
  std::vector<std::map<Stream, IntervalSet>> attended_;
  std::vector<bool> merged_;
  std::map<int, int> in_flight_;  // token -> buffer
  size_t transfers_ = 0;
};

void DataFlow::follow(const RankPlan& plan) {
  if (plan.buffers.empty() || !same_rows(plan.buffers[0], plan.rows) || plan.states < 1) {
    out_.add("rank ", plan.rank, ": buffer 0 must be the rank's own rows, and state 0 must exist");
    return;
  }
  RankFlow(plan, *this).run();
  ++ranks_seen_;
}

void DataFlow::finish() {
  const auto compare = [&](const auto& mine, const auto& theirs, const char* missing) {
    for (const auto& [pair, rows] : mine) {
      const auto it = theirs.find(pair);
      const bool same =
          it != theirs.end() &&
          std::equal(rows.begin(), rows.end(), it->second.begin(), it->second.end(), same_rows);
      if (!same) {
        out_.add("messages from rank ", pair.first, " to rank ", pair.second, ": ", missing);
      }
    }
  };
  compare(sent_, expected_, "the receiver does not expect just these rows");
  compare(expected_, sent_, "the sender does not send just these rows");
}

}  // namespace bdlm
