#include "conformance/mutants/plan_edits.h"

#include <algorithm>
#include <set>

namespace bdlm {

Mutant plan_mutant(const std::string& name, const std::string& kind, const std::string& what,
                   std::function<void(const PlanSetting&, Plans&)> edit) {
  Mutant m{name, kind, what, {}};
  m.subject.plans = std::move(edit);
  return m;
}

namespace {

using BandEdit = std::function<std::vector<Band>(const BandPlace&, const Band&)>;

template <class BandStep>
void edit_list(const RankPlan& plan, std::vector<Step>& steps, const BandEdit& edit) {
  for (Step& step : steps) {
    if (auto* attend = std::get_if<BandStep>(&step)) {
      const BandPlace place{plan, plan.buffers[attend->buffer], attend->buffer != 0};
      std::vector<Band> bands;
      for (const Band& band : attend->bands) {
        for (const Band& edited : edit(place, band)) {
          const Band trimmed = trim(edited);
          if (!trimmed.rows.empty()) {
            bands.push_back(trimmed);
          }
        }
      }
      attend->bands = std::move(bands);
    }
  }
  std::erase_if(steps, [](const Step& step) {
    const auto* attend = std::get_if<BandStep>(&step);
    return attend != nullptr && attend->bands.empty();
  });
}

/// The token under which a step starts a transfer; -1 for another step.
int token_of(const Step& step) {
  return std::visit(
      [](const auto& s) {
        if constexpr (requires { s.token; } && !std::is_same_v<std::decay_t<decltype(s)>, Wait>) {
          return s.token;
        } else {
          return -1;
        }
      },
      step);
}

/// Clean rows only.
RowSet clean_rows(const IntervalSet& rows) {
  return {IntervalSet{}, rows};
}

void restrict_messages(std::vector<Message>& messages,
                       const std::function<IntervalSet(int peer)>& keep) {
  for (Message& message : messages) {
    message.rows = clean_rows(intersect(message.rows.rows(Stream::clean), keep(message.peer)));
  }
  std::erase_if(messages, [](const Message& message) { return message.rows.size() == 0; });
}

}  // namespace

void edit_bands(std::vector<RankPlan>& plans, const BandEdit& edit) {
  for (RankPlan& plan : plans) {
    edit_list<Attend>(plan, plan.forward, edit);
    edit_list<AttendBackward>(plan, plan.backward, edit);
  }
}

void edit_backward_bands(std::vector<RankPlan>& plans, const BandEdit& edit) {
  for (RankPlan& plan : plans) {
    edit_list<AttendBackward>(plan, plan.backward, edit);
  }
}

Band with_key_end(const BandPlace& place, Band band, int64_t end) {
  // One key at a time, so that a halo which ends in between gives what it has.
  while (band.keys.end < end &&
         place.buffer.contains(band.key_stream, {band.keys.begin, band.keys.end + 1})) {
    ++band.keys.end;
  }
  band.keys.end = std::min(band.keys.end, end);
  return band;
}

void restrict_halos(std::vector<RankPlan>& plans,
                    const std::function<IntervalSet(int rank)>& keep) {
  for (RankPlan& plan : plans) {
    if (find_step<Exchange>(plan.forward) == plan.forward.size()) {
      continue;
    }
    IntervalSet mine = keep(plan.rank);
    const auto to_me = [&mine](int) { return mine; };
    plan.buffers[1] = clean_rows(intersect(plan.buffers[1].rows(Stream::clean), mine));
    for (Step& step : plan.forward) {
      if (auto* exchange = std::get_if<Exchange>(&step)) {
        restrict_messages(exchange->receives, to_me);
        restrict_messages(exchange->sends, keep);
      }
    }
    for (Step& step : plan.backward) {
      if (auto* back = std::get_if<ExchangeBack>(&step)) {
        restrict_messages(back->sends, to_me);
        restrict_messages(back->receives, keep);
      }
    }
  }
  edit_bands(plans, [](const BandPlace& place, const Band& band) {
    return restrict_keys({band}, place.buffer.rows(band.key_stream));
  });
}

void drop_steps(std::vector<Step>& steps, const std::function<bool(const Step&)>& drop) {
  std::set<int> tokens;
  std::erase_if(steps, [&](const Step& step) {
    const bool gone = drop(step);
    if (gone) {
      tokens.insert(token_of(step));
    }
    return gone;
  });
  std::erase_if(steps, [&](const Step& step) {
    const auto* wait = std::get_if<Wait>(&step);
    return wait != nullptr && tokens.count(wait->token) > 0;
  });
}

void move_step(std::vector<Step>& steps, size_t from, size_t to) {
  Step step = std::move(steps[from]);
  steps.erase(steps.begin() + static_cast<std::ptrdiff_t>(from));
  steps.insert(steps.begin() + static_cast<std::ptrdiff_t>(to), std::move(step));
}

}  // namespace bdlm
