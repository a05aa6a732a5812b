// The part of a communicator that is the same for every transport: checks, byte counts, the log.
#include "reference/schedule/communicator.h"

#include <array>
#include <boost/test/unit_test.hpp>
#include <string>

#include "reference/base/error.h"

namespace bdlm {
BOOST_AUTO_TEST_SUITE(communicator)

namespace {

/// Moves nothing; remembers what reached the transport.
class SilentCommunicator final : public Communicator {
 public:
  SilentCommunicator(int rank, int size) : rank_(rank), size_(size) {}
  int rank() const override { return rank_; }
  int size() const override { return size_; }

  std::vector<PeerPayload> sends;
  std::vector<PeerPayload> receives;
  std::vector<int64_t> waited;
  int calls = 0;

 protected:
  Ticket start_all_gather(Payload, Payload) override { return {100 + calls++}; }
  Ticket start_reduce_scatter(Payload, Payload) override { return {100 + calls++}; }
  Ticket start_exchange(const std::vector<PeerPayload>& s,
                        const std::vector<PeerPayload>& r) override {
    sends = s;
    receives = r;
    return {100 + calls++};
  }
  void do_all_reduce(Payload) override { ++calls; }
  void do_wait(Ticket ticket) override { waited.push_back(ticket.id); }

 private:
  int rank_;
  int size_;
};

struct Memory {
  std::array<double, 64> values{};
  Payload at(int64_t index, int64_t count) {
    return {values.data() + index, count, element_type<double>()};
  }
};

/// Whether the error's text holds `part`.
auto says(const std::string& part) {
  return [part](const std::exception& error) {
    BOOST_TEST_MESSAGE(error.what());
    return std::string(error.what()).find(part) != std::string::npos &&
           std::string(error.what()).find('\n') == std::string::npos;
  };
}

// all-gather: shard (P - 1); reduce-scatter: input - own shard; all-reduce: 2 (P - 1) ceil(n / P).
BOOST_AUTO_TEST_CASE(bytes_of_each_operation_on_3_ranks) {
  Memory memory;
  SilentCommunicator c(1, 3);
  c.wait(c.all_gather(memory.at(0, 5), memory.at(10, 15), "attention"));
  c.wait(c.reduce_scatter(memory.at(0, 12), memory.at(20, 4), "attention"));
  c.all_reduce(memory.at(0, 7), "parameters");
  c.wait(c.exchange({{2, memory.at(0, 3)}, {0, memory.at(3, 1)}}, {{0, memory.at(9, 2)}}, "loss"));
  const std::vector<LogEntry> expected{
      {Operation::all_gather, int64_t{5} * 8 * 2, -1, "attention"},
      {Operation::reduce_scatter, int64_t{8} * 8, -1, "attention"},
      {Operation::all_reduce, int64_t{2} * 2 * 3 * 8, -1, "parameters"},
      {Operation::send, 24, 2, "loss"},
      {Operation::send, 8, 0, "loss"},
      {Operation::receive, 16, 0, "loss"}};
  BOOST_TEST((c.log() == expected));
  BOOST_TEST(c.bytes_sent("attention") == 80 + 64);
  BOOST_TEST(c.bytes_sent("parameters") == 96);
  BOOST_TEST(c.bytes_sent("loss") == 32);
  BOOST_TEST(c.bytes_sent("nothing") == 0);
  c.clear_log();
  BOOST_TEST(c.log().empty());
}

BOOST_AUTO_TEST_CASE(one_rank_sends_no_bytes) {
  Memory memory;
  SilentCommunicator c(0, 1);
  c.wait(c.all_gather(memory.at(0, 5), memory.at(10, 5), "x"));
  c.wait(c.reduce_scatter(memory.at(0, 5), memory.at(10, 5), "x"));
  c.all_reduce(memory.at(0, 7), "x");
  c.wait(c.exchange({}, {}, "x"));
  BOOST_TEST(c.log().size() == 3U);
  BOOST_TEST(c.bytes_sent("x") == 0);
}

BOOST_AUTO_TEST_CASE(empty_messages_do_not_reach_the_transport) {
  Memory memory;
  SilentCommunicator c(0, 3);
  c.wait(c.exchange({{1, memory.at(0, 0)}, {2, memory.at(0, 2)}}, {{1, {}}}, "x"));
  BOOST_TEST(c.sends.size() == 1U);
  BOOST_TEST(c.sends[0].peer == 2);
  BOOST_TEST(c.receives.empty());
  BOOST_TEST(c.log().size() == 1U);
}

BOOST_AUTO_TEST_CASE(wrong_arguments_are_named_and_reach_nobody) {
  Memory m;
  SilentCommunicator c(1, 3);
  const auto type = element_type<double>();
  std::array<float, 9> floats{};
  const Payload float9{floats.data(), 9, element_type<float>()};
  BOOST_CHECK_EXCEPTION(c.all_gather(m.at(0, 3), m.at(9, 8), "x"), InputError, says("3 ranks"));
  BOOST_CHECK_EXCEPTION(c.all_gather(m.at(0, 3), float9, "x"), InputError, says("f32"));
  BOOST_CHECK_EXCEPTION(c.all_gather(m.at(0, 3), m.at(2, 9), "x"), InputError, says("overlap"));
  BOOST_CHECK_EXCEPTION(c.reduce_scatter(m.at(0, 8), m.at(9, 3), "x"), InputError, says("8"));
  BOOST_CHECK_EXCEPTION(c.reduce_scatter(m.at(0, 9), m.at(9, 9), "x"), InputError, says("times"));
  BOOST_CHECK_EXCEPTION(c.reduce_scatter(m.at(0, 9), m.at(8, 3), "x"), InputError, says("overlap"));
  BOOST_CHECK_EXCEPTION(c.all_reduce(m.at(0, -1), "x"), InputError, says("-1"));
  BOOST_CHECK_EXCEPTION(c.all_reduce({nullptr, 1, type}, "x"), InputError, says("no data"));
  BOOST_CHECK_EXCEPTION(c.all_reduce({floats.data(), 1, nullptr}, "x"), InputError,
                        says("no element type"));
  BOOST_CHECK_EXCEPTION(c.all_reduce({floats.data(), int64_t{1} << 61, type}, "x"), InputError,
                        says("2^63"));
  BOOST_CHECK_EXCEPTION(c.exchange({{3, m.at(0, 1)}}, {}, "x"), InputError, says("rank 3"));
  BOOST_CHECK_EXCEPTION(c.exchange({}, {{-1, m.at(0, 1)}}, "x"), InputError, says("rank -1"));
  BOOST_CHECK_EXCEPTION(c.exchange({{1, m.at(0, 1)}}, {}, "x"), InputError, says("itself"));
  BOOST_CHECK_EXCEPTION(c.exchange({{0, m.at(0, 1)}, {0, m.at(1, 1)}}, {}, "x"), InputError,
                        says("twice"));
  BOOST_CHECK_EXCEPTION(c.exchange({}, {{0, m.at(0, 1)}, {0, m.at(1, 1)}}, "x"), InputError,
                        says("twice"));
  BOOST_CHECK_EXCEPTION(c.exchange({{0, m.at(0, 2)}}, {{2, m.at(1, 2)}}, "x"), InputError,
                        says("overlaps"));
  BOOST_CHECK_EXCEPTION(c.exchange({}, {{0, m.at(0, 2)}, {2, m.at(1, 2)}}, "x"), InputError,
                        says("overlaps"));
  BOOST_TEST(c.calls == 0);
  BOOST_TEST(c.log().empty());
}

BOOST_AUTO_TEST_CASE(each_ticket_is_waited_for_once_in_any_order) {
  Memory m;
  SilentCommunicator c(0, 2);
  const Ticket a = c.all_gather(m.at(0, 1), m.at(2, 2), "x");
  const Ticket b = c.all_gather(m.at(4, 1), m.at(6, 2), "x");
  c.wait(b);
  BOOST_CHECK_EXCEPTION(c.wait(b), LogicError, says("101"));
  BOOST_CHECK_EXCEPTION(c.wait({}), LogicError, says("-1"));
  c.wait(a);
  BOOST_TEST(c.waited == (std::vector<int64_t>{b.id, a.id}));
}

BOOST_AUTO_TEST_CASE(names_tell_types_apart) {
  BOOST_TEST(element_type<float>()->name == std::string("f32"));
  BOOST_TEST(element_type<int64_t>()->name == std::string("i64"));
  BOOST_TEST(element_type<uint8_t>()->name == std::string("u8"));
  BOOST_TEST(element_type<std::string>()->name == std::string("host object"));
  BOOST_TEST(!element_type<std::string>()->trivial);
  BOOST_TEST(same_type(*element_type<double>(), *element_type<double>()));
  BOOST_TEST(!same_type(*element_type<double>(), *element_type<int64_t>()));
  const ElementType copy = *element_type<double>();
  BOOST_TEST(same_type(*element_type<double>(), copy));
  const ElementType other = *element_type<std::string>();
  BOOST_TEST(!same_type(*element_type<std::string>(), other));
  BOOST_TEST(name(Operation::all_reduce) == std::string("all_reduce"));
}

}  // namespace

BOOST_AUTO_TEST_SUITE_END()

}  // namespace bdlm
