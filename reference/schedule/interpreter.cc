#include "reference/schedule/interpreter.h"

#include <functional>
#include <map>

#include "reference/base/error.h"

namespace bdlm {
namespace {

constexpr const char* purpose = "attention";

/// A transfer in flight and what remains to be done once it is complete.
struct Pending {
  Ticket ticket;
  std::function<void()> unpack;
};

class Interpreter {
 public:
  Interpreter(Engine& engine, Communicator& communicator)
      : engine_(engine), communicator_(communicator) {}

  void operator()(const Attend& step) { engine_.attend(step); }
  void operator()(const Merge& step) { engine_.merge(step); }
  void operator()(const AttendBackward& step) { engine_.attend_backward(step); }

  void operator()(const Gather& step) {
    const CollectiveTransfer t = engine_.pack(step);
    start(step, communicator_.all_gather(t.send, t.receive, purpose));
  }
  void operator()(const ReduceScatter& step) {
    const CollectiveTransfer t = engine_.pack(step);
    start(step, communicator_.reduce_scatter(t.send, t.receive, purpose));
  }
  void operator()(const Exchange& step) { exchange(step); }
  void operator()(const ExchangeBack& step) { exchange(step); }

  void operator()(const Wait& step) {
    const auto it = pending_.find(step.token);
    require<LogicError>(it != pending_.end(), "wait for token ", step.token,
                        ", under which no transfer is in flight");
    communicator_.wait(it->second.ticket);
    it->second.unpack();
    pending_.erase(it);
  }

  void finish() const {
    require<LogicError>(pending_.empty(), "the transfer of token ",
                        pending_.empty() ? -1 : pending_.begin()->first, " is never waited for");
  }

 private:
  template <class ExchangeStep>
  void exchange(const ExchangeStep& step) {
    const ExchangeTransfer t = engine_.pack(step);
    start(step, communicator_.exchange(t.sends, t.receives, purpose));
  }

  template <class TransferStep>
  void start(const TransferStep& step, Ticket ticket) {
    const bool fresh =
        pending_.emplace(step.token, Pending{ticket, [this, &step] { engine_.unpack(step); }})
            .second;
    require<LogicError>(fresh, "token ", step.token, " is started twice");
  }

  Engine& engine_;
  Communicator& communicator_;
  std::map<int, Pending> pending_;
};

}  // namespace

void run(std::span<const Step> steps, Engine& engine, Communicator& communicator) {
  Interpreter interpreter(engine, communicator);
  for (const Step& step : steps) {
    std::visit(interpreter, step);
  }
  interpreter.finish();
}

}  // namespace bdlm
