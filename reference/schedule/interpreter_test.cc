#include "reference/schedule/interpreter.h"

#include <boost/test/unit_test.hpp>
#include <string>

#include "reference/base/error.h"

namespace bdlm {
BOOST_AUTO_TEST_SUITE(interpreter)

namespace {

/// Writes down what it is asked to do.
class Recorder : public Engine {
 public:
  void attend(const Attend& s) override { lines.push_back("attend " + std::to_string(s.buffer)); }
  void merge(const Merge& s) override { lines.push_back("merge " + std::to_string(s.from)); }
  void attend_backward(const AttendBackward& s) override {
    lines.push_back("backward " + std::to_string(s.buffer));
  }
  CollectiveTransfer pack(const Gather&) override { return collective("pack gather", 3, 3); }
  CollectiveTransfer pack(const ReduceScatter&) override { return collective("pack reduce", 3, 3); }
  ExchangeTransfer pack(const Exchange&) override { return exchange("pack exchange"); }
  ExchangeTransfer pack(const ExchangeBack&) override { return exchange("pack back"); }
  void unpack(const Gather&) override { lines.emplace_back("unpack gather"); }
  void unpack(const ReduceScatter&) override { lines.emplace_back("unpack reduce"); }
  void unpack(const Exchange&) override { lines.emplace_back("unpack exchange"); }
  void unpack(const ExchangeBack&) override { lines.emplace_back("unpack back"); }

  std::vector<std::string> lines;

 private:
  CollectiveTransfer collective(const char* line, int64_t sent, int64_t received) {
    lines.emplace_back(line);
    return {{data, sent, element_type<double>()}, {data + 3, received, element_type<double>()}};
  }
  ExchangeTransfer exchange(const char* line) {
    lines.emplace_back(line);
    return {};
  }
  double data[6] = {};
};

/// A group of one whose transfers do nothing.
class Alone : public Communicator {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }

 protected:
  Ticket start_all_gather(Payload, Payload) override { return {next_++}; }
  Ticket start_reduce_scatter(Payload, Payload) override { return {next_++}; }
  Ticket start_exchange(const std::vector<PeerPayload>&, const std::vector<PeerPayload>&) override {
    return {next_++};
  }
  void do_all_reduce(Payload) override {}
  void do_wait(Ticket) override {}

 private:
  int64_t next_ = 0;
};

std::vector<std::string> lines_of(const std::vector<Step>& steps) {
  Recorder engine;
  Alone communicator;
  run(steps, engine, communicator);
  return engine.lines;
}

}  // namespace

// Transfers start where they stand and are unpacked at their wait, in whatever order the waits
// come.
BOOST_AUTO_TEST_CASE(steps_run_in_order_and_transfers_end_at_their_wait) {
  const std::vector<std::string> lines =
      lines_of({Gather{7, 1, {}, 1}, Attend{0, 0, false, {}}, Exchange{2, 2, {}, {}}, Wait{2},
                Wait{7}, Merge{0, 1}, AttendBackward{1, {}}, ReduceScatter{7, 1, {}, 1},
                ExchangeBack{3, 2, {}, {}}, Wait{7}, Wait{3}});
  const std::vector<std::string> expected{
      "pack gather", "attend 0",    "pack exchange", "unpack exchange", "unpack gather", "merge 1",
      "backward 1",  "pack reduce", "pack back",     "unpack reduce",   "unpack back"};
  BOOST_CHECK_EQUAL_COLLECTIONS(lines.begin(), lines.end(), expected.begin(), expected.end());
}

BOOST_AUTO_TEST_CASE(a_plan_with_loose_ends_is_refused) {
  BOOST_CHECK_THROW(lines_of({Wait{0}}), LogicError);
  BOOST_CHECK_THROW(lines_of({Gather{0, 1, {}, 1}}), LogicError);
  BOOST_CHECK_THROW(lines_of({Gather{0, 1, {}, 1}, Gather{0, 1, {}, 1}, Wait{0}}), LogicError);
  BOOST_CHECK_THROW(lines_of({Gather{0, 1, {}, 1}, Wait{0}, Wait{0}}), LogicError);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace bdlm
