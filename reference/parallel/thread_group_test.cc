// How operations fail: ranks that disagree, are late, or leave.
#include "reference/parallel/thread_group.h"

#include <atomic>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <functional>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "reference/base/error.h"
#include "reference/parallel/thread_communicator.h"

namespace bdlm {
BOOST_AUTO_TEST_SUITE(thread_group)

namespace {

using namespace std::chrono_literals;

template <class T>
Payload payload(std::vector<T>& values) {
  return {values.data(), static_cast<int64_t>(values.size()), element_type<T>()};
}

/// The text of the CommunicationError that each rank gets; "" when it gets none, "other: ..." for
/// another error.
std::vector<std::string> errors(int ranks, const std::function<void(Communicator&)>& program,
                                std::chrono::milliseconds limit = 20s) {
  std::vector<std::string> texts(static_cast<size_t>(ranks));
  const auto caught = [&](Communicator& c) {
    std::string& text = texts[static_cast<size_t>(c.rank())];
    try {
      program(c);
    } catch (const CommunicationError& error) {
      text = error.what();
      throw;
    } catch (const std::exception& error) {
      text = join("other: ", error.what());
      throw;
    }
  };
  try {
    run_ranks(ranks, caught, {.time_limit = limit});
  } catch (const std::exception&) {
  }
  return texts;
}

void check_all(const std::vector<std::string>& texts, const std::vector<std::string>& parts) {
  for (const std::string& text : texts) {
    for (const std::string& part : parts) {
      BOOST_TEST(text.find(part) != std::string::npos, "'" << text << "' lacks '" << part << "'");
    }
    BOOST_TEST(text.find('\n') == std::string::npos);
  }
}

struct Fraction {
  int64_t over = 1;
  Fraction& operator+=(const Fraction&) { return *this; }
};
struct Decimal {
  int64_t digits = 1;
  Decimal& operator+=(const Decimal&) { return *this; }
};

BOOST_AUTO_TEST_CASE(counts_that_differ) {
  check_all(errors(3,
                   [](Communicator& c) {
                     std::vector<double> first(1);
                     c.all_reduce(payload(first), "x");
                     std::vector<double> data(c.rank() == 2 ? 12 : 15);
                     c.all_reduce(payload(data), "x");
                   }),
            {"operation 1", "rank 0 calls all_reduce of 15 f64",
             "rank 2 calls all_reduce of 12 f64", "counts"});
}

BOOST_AUTO_TEST_CASE(kinds_that_differ) {
  check_all(errors(3,
                   [](Communicator& c) {
                     std::vector<double> large(6);
                     std::vector<double> small(2);
                     c.wait(c.rank() == 1 ? c.reduce_scatter(payload(large), payload(small), "x")
                                          : c.all_gather(payload(small), payload(large), "x"));
                   }),
            {"operation 0", "rank 0 calls all_gather of 2 f64",
             "rank 1 calls reduce_scatter of 6 f64", "same operation"});
  check_all(errors(2,
                   [](Communicator& c) {
                     std::vector<double> send(4);
                     std::vector<double> receive(8);
                     if (c.rank() == 0) {
                       c.wait(c.all_gather(payload(send), payload(receive), "x"));
                     } else {
                       c.all_reduce(payload(send), "x");
                     }
                   }),
            {"operation 0", "rank 0 calls all_gather of 4 f64", "rank 1 calls all_reduce of 4 f64",
             "same operation"});
}

BOOST_AUTO_TEST_CASE(types_that_differ) {
  check_all(errors(2,
                   [](Communicator& c) {
                     std::vector<double> wide(3);
                     std::vector<int64_t> integers(3);
                     c.all_reduce(c.rank() == 0 ? payload(wide) : payload(integers), "x");
                   }),
            {"operation 0", "3 f64", "3 i64", "element types"});
  check_all(errors(2,
                   [](Communicator& c) {
                     std::vector<Fraction> fractions(3);
                     std::vector<Decimal> decimals(3);
                     c.all_reduce(c.rank() == 0 ? payload(fractions) : payload(decimals), "x");
                   }),
            {"operation 0", "3 host object", "host types"});
}

BOOST_AUTO_TEST_CASE(both_ends_of_a_message_differ) {
  const auto exchange = [](int64_t sent, int64_t expected, bool same_type) {
    return errors(3, [=](Communicator& c) {
      std::vector<float> out(static_cast<size_t>(sent));
      std::vector<float> in(static_cast<size_t>(expected));
      std::vector<double> wide(static_cast<size_t>(expected));
      std::vector<PeerPayload> sends;
      std::vector<PeerPayload> receives;
      if (c.rank() == 0) {
        sends.push_back({2, payload(out)});
      }
      if (c.rank() == 2) {
        receives.push_back({0, same_type ? payload(in) : payload(wide)});
      }
      c.wait(c.exchange(sends, receives, "x"));
    });
  };
  check_all(exchange(5, 4, true), {"operation 0", "rank 0 sends 5 f32 to rank 2", "expects 4 f32"});
  check_all(exchange(5, 0, true), {"rank 0 sends 5 f32 to rank 2", "expects nothing"});
  check_all(exchange(0, 4, true), {"rank 0 sends nothing to rank 2", "expects 4 f32"});
  check_all(exchange(4, 4, false), {"rank 0 sends 4 f32 to rank 2", "expects 4 f64"});
  for (const std::string& text : exchange(4, 4, true)) {
    BOOST_TEST(text.empty(), text);
  }
}

void all_reduce_with_a_pause(Communicator& c, std::chrono::milliseconds pause) {
  std::vector<double> data(3, 1.0);
  if (c.rank() == 1) {
    std::this_thread::sleep_for(pause);
  }
  c.all_reduce(payload(data), "x");
}

BOOST_AUTO_TEST_CASE(a_late_rank_within_the_limit) {
  for (const std::string& text : errors(
           3, [](Communicator& c) { all_reduce_with_a_pause(c, 200ms); }, 20s)) {
    BOOST_TEST(text.empty(), text);
  }
}

BOOST_AUTO_TEST_CASE(a_late_rank_beyond_the_limit) {
  check_all(errors(
                3, [](Communicator& c) { all_reduce_with_a_pause(c, 1500ms); }, 150ms),
            {"operation 0 (all_reduce of 3 f64)", "waited 150 ms for rank 1 (has not started it)"});
}

BOOST_AUTO_TEST_CASE(a_rank_that_starts_but_never_waits) {
  check_all(errors(
                2,
                [](Communicator& c) {
                  std::vector<double> send(2);
                  std::vector<double> receive(4);
                  const Ticket ticket = c.all_gather(payload(send), payload(receive), "x");
                  if (c.rank() == 1) {
                    std::this_thread::sleep_for(1500ms);
                  }
                  c.wait(ticket);
                },
                150ms),
            {"rank 0 waited 150 ms for rank 1 (started it but does not wait for it)"});
}

// Long before the limit: nobody waits for a rank whose program is over.
BOOST_AUTO_TEST_CASE(a_rank_that_ends_early) {
  const auto begin = std::chrono::steady_clock::now();
  const auto texts = errors(3, [](Communicator& c) {
    std::vector<double> data(3);
    if (c.rank() != 2) {
      c.all_reduce(payload(data), "x");
    }
  });
  BOOST_TEST((std::chrono::steady_clock::now() - begin < 10s));
  check_all({texts[0], texts[1]}, {"for rank 2 (has not started it, and has ended)"});
  BOOST_TEST(texts[2].empty());
}

// The cause is rethrown, although lower ranks have errors too, and no rank hangs.
BOOST_AUTO_TEST_CASE(a_rank_that_throws) {
  for (int repeat = 0; repeat < 50; ++repeat) {
    std::vector<std::string> texts(4);
    const auto program = [&](Communicator& c) {
      std::vector<double> send(10000, 1.0);
      std::vector<double> receive(40000);
      try {
        const Ticket ticket = c.all_gather(payload(send), payload(receive), "x");
        if (c.rank() == 2) {
          throw std::out_of_range("no such block");
        }
        c.wait(ticket);
        c.all_reduce(payload(send), "x");
      } catch (const GroupAborted& error) {
        texts[static_cast<size_t>(c.rank())] = error.what();
        throw;
      }
    };
    BOOST_CHECK_THROW(run_ranks(4, program), std::out_of_range);
    check_all({texts[0], texts[1], texts[3]}, {"rank 2 left the group: no such block"});
  }
}

/// Counts how often it is read while its owner is at work elsewhere.
struct Watched {
  Watched() = default;
  Watched(const Watched&) = default;
  Watched& operator=(const Watched& other) {
    if (this == &other) {
      return *this;
    }
    owner_away = other.owner_away;
    reads_while_away += owner_away != nullptr && *owner_away ? 1 : 0;
    return *this;
  }
  Watched& operator+=(const Watched&) { return *this; }

  const std::atomic<bool>* owner_away = nullptr;
  static std::atomic<int> reads_while_away;
};
std::atomic<int> Watched::reads_while_away{0};

// An owner that leaves by an exception destroys what it sent: nobody may be reading it then.
BOOST_AUTO_TEST_CASE(payloads_are_read_only_while_their_owner_waits) {
  std::atomic<bool> away{false};
  Watched::reads_while_away = 0;
  run_ranks(2, [&](Communicator& c) {
    std::vector<Watched> send(1);
    std::vector<Watched> receive(2);
    if (c.rank() == 1) {
      away = true;
      send[0].owner_away = &away;
    }
    const Ticket ticket = c.all_gather(payload(send), payload(receive), "x");
    if (c.rank() == 1) {
      std::this_thread::sleep_for(200ms);
      away = false;
    }
    c.wait(ticket);
    require<LogicError>(receive[1].owner_away == &away, "the payload has not arrived");
  });
  BOOST_TEST(Watched::reads_while_away == 0);
}

/// Throws when it is copied.
struct Fragile {
  Fragile() = default;
  Fragile(const Fragile&) = default;
  Fragile& operator=(const Fragile& other) {
    require<std::overflow_error>(this == &other, "too large");
    return *this;
  }
  Fragile& operator+=(const Fragile&) { return *this; }
};

BOOST_AUTO_TEST_CASE(an_element_that_throws) {
  BOOST_CHECK_THROW(run_ranks(3,
                              [](Communicator& c) {
                                std::vector<Fragile> send(2);
                                std::vector<Fragile> receive(6);
                                c.wait(c.all_gather(payload(send), payload(receive), "x"));
                              }),
                    std::overflow_error);
}

BOOST_AUTO_TEST_CASE(the_error_of_the_lowest_rank_is_rethrown) {
  const auto program = [](Communicator& c) {
    if (c.rank() >= 1) {
      throw std::runtime_error(join("rank ", c.rank()));
    }
  };
  BOOST_CHECK_EXCEPTION(run_ranks(3, program), std::runtime_error,
                        [](const auto& error) { return std::string(error.what()) == "rank 1"; });
}

BOOST_AUTO_TEST_CASE(groups_need_ranks_and_time) {
  const auto nothing = [](Communicator&) {};
  BOOST_CHECK_THROW(run_ranks(0, nothing), InputError);
  BOOST_CHECK_THROW(run_ranks(2, nothing, {.time_limit = 0ms}), InputError);
  BOOST_CHECK_THROW(run_ranks(2, nothing, {.openmp_threads = -1}), InputError);
  BOOST_CHECK_THROW(ThreadCommunicator(std::make_shared<ThreadGroup>(2, 1s), 2), InputError);
}

}  // namespace

BOOST_AUTO_TEST_SUITE_END()

}  // namespace bdlm
