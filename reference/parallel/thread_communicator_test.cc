// What arrives: values, sums in rank order, logs. How operations fail: thread_group_test.cc.
#include "reference/parallel/thread_communicator.h"

#ifdef _OPENMP
#include <omp.h>
#endif

#include <algorithm>
#include <array>
#include <boost/test/unit_test.hpp>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "reference/base/error.h"
#include "reference/parallel/testing_program.h"

namespace bdlm {
BOOST_AUTO_TEST_SUITE(thread_communicator)

namespace {

template <class T>
Payload payload(std::vector<T>& values) {
  return {values.data(), static_cast<int64_t>(values.size()), element_type<T>()};
}

/// For checks by the threads of ranks, which Boost.Test's own macros do not allow.
template <class... Parts>
void expect(bool condition, const Parts&... parts) {
  require<LogicError>(condition, "unexpected: ", parts...);
}

/// Runs the ranks; their first error is the test's.
void check_ranks(int ranks, const std::function<void(Communicator&)>& program,
                 const RunOptions& options = {}) {
  std::string error;
  try {
    run_ranks(ranks, program, options);
  } catch (const std::exception& caught) {
    error = caught.what();
  }
  BOOST_TEST(error.empty(), error);
}

/// A number that remembers how it was summed.
struct Term {
  std::string text;
  Term& operator+=(const Term& other) {
    text = "(" + text + "+" + other.text + ")";
    return *this;
  }
  friend bool operator==(const Term&, const Term&) = default;
};

// receive_r = send_0 | send_1 | send_2
BOOST_AUTO_TEST_CASE(all_gather_on_3_ranks) {
  std::vector<std::vector<int64_t>> got(3, std::vector<int64_t>(6, -1));
  check_ranks(3, [&](Communicator& c) {
    const int64_t r = c.rank();
    std::vector<int64_t> send{10 * r + 1, 10 * r + 2};
    c.wait(c.all_gather(payload(send), payload(got[static_cast<size_t>(r)]), "x"));
  });
  for (const auto& one : got) {
    BOOST_TEST(one == (std::vector<int64_t>{1, 2, 11, 12, 21, 22}),
               boost::test_tools::per_element());
  }
}

// receive_r = Σ_q send_q[slice r]
BOOST_AUTO_TEST_CASE(reduce_scatter_on_3_ranks) {
  const std::vector<std::vector<int64_t>> send{
      {1, 2, 3, 4, 5, 6}, {10, 20, 30, 40, 50, 60}, {100, 200, 300, 400, 500, 600}};
  std::vector<std::vector<int64_t>> got(3, std::vector<int64_t>(2, -1));
  check_ranks(3, [&](Communicator& c) {
    const auto r = static_cast<size_t>(c.rank());
    std::vector<int64_t> own = send[r];
    c.wait(c.reduce_scatter(payload(own), payload(got[r]), "x"));
    expect(own == send[r], "what is sent has changed");
  });
  const std::vector<std::vector<int64_t>> expected{{111, 222}, {333, 444}, {555, 666}};
  for (size_t r = 0; r < 3; ++r) {
    BOOST_TEST(got[r] == expected[r], boost::test_tools::per_element());
  }
}

// data_r = Σ_q data_q, for counts below, at and above P, and not a multiple of it
BOOST_AUTO_TEST_CASE(all_reduce_of_every_small_count) {
  for (const int64_t ranks : {1, 2, 3, 4, 8}) {
    for (const size_t count : {0U, 1U, 2U, 3U, 4U, 7U, 8U, 9U, 5000U}) {
      check_ranks(static_cast<int>(ranks), [&](Communicator& c) {
        std::vector<int64_t> data(count);
        for (size_t i = 0; i < count; ++i) {
          data[i] = static_cast<int64_t>(i) * (c.rank() + 1) - 7;
        }
        c.all_reduce(payload(data), "x");
        bool equal = true;
        for (size_t i = 0; i < count; ++i) {
          equal = equal && data[i] == static_cast<int64_t>(i) * ranks * (ranks + 1) / 2 - 7 * ranks;
        }
        expect(equal, "a sum of ", count, " elements over ", ranks, " ranks");
      });
    }
  }
}

// ((1 + 1e16) - 1e16) + 1 = 1, while any other order gives 0 or 2
BOOST_AUTO_TEST_CASE(sums_are_in_rank_order) {
  const std::array<double, 4> terms{1.0, 1e16, -1e16, 1.0};
  const double expected = ((terms[0] + terms[1]) + terms[2]) + terms[3];
  BOOST_TEST(expected == 1.0);
  BOOST_TEST(terms[0] + (terms[3] + (terms[1] + terms[2])) == 2.0);
  check_ranks(4, [&](Communicator& c) {
    const double own = terms[static_cast<size_t>(c.rank())];
    std::vector<double> send(8, own);
    std::vector<double> receive(2);
    std::vector<double> data(5001, own);
    c.wait(c.reduce_scatter(payload(send), payload(receive), "x"));
    c.all_reduce(payload(data), "x");
    expect(receive == std::vector<double>(2, expected), "reduce_scatter: ", receive[0]);
    expect(data == std::vector<double>(5001, expected), "all_reduce: ", data[0]);
  });
}

BOOST_AUTO_TEST_CASE(host_objects_travel) {
  check_ranks(3, [&](Communicator& c) {
    const std::string own(1, static_cast<char>('a' + c.rank()));
    const Term ordered{"((a+b)+c)"};
    std::vector<Term> send(3, Term{own});
    std::vector<Term> sum(1);
    std::vector<Term> data(4, Term{own});
    std::vector<Term> gathered(9);
    std::vector<Term> from_left(3);
    const int right = (c.rank() + 1) % 3;
    const int left = (c.rank() + 2) % 3;
    c.wait(c.reduce_scatter(payload(send), payload(sum), "x"));
    c.wait(c.all_gather(payload(send), payload(gathered), "x"));
    c.wait(c.exchange({{right, payload(send)}}, {{left, payload(from_left)}}, "x"));
    c.all_reduce(payload(data), "x");
    expect(sum[0] == ordered, sum[0].text);
    expect(data == std::vector<Term>(4, ordered), data[0].text);
    expect(gathered[0].text + gathered[4].text + gathered[8].text == "abc", gathered[0].text);
    expect(from_left[2].text == std::string(1, static_cast<char>('a' + left)), from_left[2].text);
  });
}

// After k steps of a ring, rank r holds what rank r - k had.
BOOST_AUTO_TEST_CASE(ring_exchange) {
  for (const int ranks : {2, 3, 4, 8}) {
    check_ranks(ranks, [&](Communicator& c) {
      std::vector<int64_t> held(5, 100 + c.rank());
      for (int step = 1; step < ranks; ++step) {
        std::vector<int64_t> in(5, -1);
        c.wait(c.exchange({{(c.rank() + 1) % ranks, payload(held)}},
                          {{(c.rank() + ranks - 1) % ranks, payload(in)}}, "x"));
        held = in;
        expect(held == std::vector<int64_t>(5, 100 + (c.rank() - step + ranks) % ranks), "step ",
               step, ": ", held[0]);
      }
      expect(c.bytes_sent("x") == int64_t{40} * (ranks - 1), c.bytes_sent("x"), " bytes");
    });
  }
}

// Rank r sends r + q elements (3 r + q) to rank q < r, and nothing to the others: lengths 0 to 5.
BOOST_AUTO_TEST_CASE(uneven_exchange_with_empty_messages) {
  check_ranks(4, [&](Communicator& c) {
    const int r = c.rank();
    const auto length = [](int from, int to) {
      return static_cast<size_t>(to < from ? from + to : 0);
    };
    std::vector<std::vector<int64_t>> out(4);
    std::vector<std::vector<int64_t>> in(4);
    std::vector<PeerPayload> sends;
    std::vector<PeerPayload> receives;
    std::vector<LogEntry> expected;
    for (int q = 0; q < 4; ++q) {
      const auto p = static_cast<size_t>(q);
      out[p].assign(length(r, q), int64_t{3} * r + q);
      in[p].assign(length(q, r), -1);
      if (q != r) {
        sends.push_back({q, payload(out[p])});
        receives.push_back({q, payload(in[p])});
      }
    }
    c.wait(c.exchange(sends, receives, "x"));
    for (const bool sent : {true, false}) {
      for (int q = 0; q < 4; ++q) {
        const size_t n = sent ? length(r, q) : length(q, r);
        if (n > 0) {
          expected.push_back(
              {sent ? Operation::send : Operation::receive, static_cast<int64_t>(8 * n), q, "x"});
        }
        expect(in[static_cast<size_t>(q)] == std::vector<int64_t>(length(q, r), int64_t{3} * q + r),
               "from rank ", q);
      }
    }
    expect(c.log() == expected, "the log");
    expect(c.log().size() == 3, c.log().size(), " lines in the log");
  });
}

// Each rank waits for its three transfers in an order of its own.
BOOST_AUTO_TEST_CASE(transfers_in_flight_are_waited_for_in_any_order) {
  check_ranks(3, [&](Communicator& c) {
    const int r = c.rank();
    std::vector<int64_t> send(6, r + 1);
    std::vector<int64_t> gathered(18, -1);
    std::vector<int64_t> sum(2, -1);
    std::vector<int64_t> in(6, -1);
    const std::array<Ticket, 3> tickets{
        c.all_gather(payload(send), payload(gathered), "x"),
        c.reduce_scatter(payload(send), payload(sum), "x"),
        c.exchange({{(r + 1) % 3, payload(send)}}, {{(r + 2) % 3, payload(in)}}, "x")};
    for (const int i : {2, 1, 0}) {
      c.wait(tickets[static_cast<size_t>((i + r) % 3)]);
    }
    expect(std::accumulate(gathered.begin(), gathered.end(), int64_t{0}) == 36, "all_gather");
    expect(sum[1] == 6, "reduce_scatter: ", sum[1]);
    expect(in[5] == (r + 2) % 3 + 1, "exchange: ", in[5]);
  });
}

// What is sent may be changed as soon as the wait has returned, however late the reader is.
BOOST_AUTO_TEST_CASE(a_sender_reuses_its_payload_after_the_wait) {
  check_ranks(2, [&](Communicator& c) {
    for (int64_t step = 0; step < 300; ++step) {
      std::vector<int64_t> send(1000, c.rank() == 0 ? step : -step);
      std::vector<int64_t> in(1000);
      c.wait(c.exchange({{1 - c.rank(), payload(send)}}, {{1 - c.rank(), payload(in)}}, "x"));
      std::fill(send.begin(), send.end(), 12345);
      expect(in == std::vector<int64_t>(1000, c.rank() == 0 ? -step : step), "step ", step);
    }
  });
}

BOOST_AUTO_TEST_CASE(one_rank_moves_are_copies) {
  check_ranks(1, [&](Communicator& c) {
    std::vector<double> send{1.5, -2.0};
    std::vector<double> gathered(2);
    std::vector<double> sum(2);
    c.wait(c.all_gather(payload(send), payload(gathered), "x"));
    c.wait(c.reduce_scatter(payload(send), payload(sum), "x"));
    c.all_reduce(payload(send), "x");
    c.wait(c.exchange({}, {}, "x"));
    expect(gathered == send && sum == send && send[1] == -2.0, gathered[0], " ", sum[0]);
  });
}

// A random program brings what its definition says, in bits and in log, however the threads run.
BOOST_AUTO_TEST_CASE(random_programs) {
  for (const int ranks : {1, 2, 3, 4, 8}) {
    for (uint64_t seed = 0; seed < 10; ++seed) {
      std::vector<testing::ProgramResult> expected;
      for (int rank = 0; rank < ranks; ++rank) {
        expected.push_back(testing::expected_result(rank, ranks, seed, 50));
      }
      for (int repeat = 0; repeat < (ranks == 4 ? 20 : 2); ++repeat) {
        check_ranks(ranks, [&](Communicator& c) {
          const auto got = testing::run_program(c, seed, 50, repeat % 2 == 0);
          expect(got == expected[static_cast<size_t>(c.rank())], "rank ", c.rank(), " of ", ranks,
                 ", seed ", seed, ", repeat ", repeat);
        });
      }
    }
  }
}

#ifdef _OPENMP
BOOST_AUTO_TEST_CASE(openmp_threads_of_a_rank) {
  const int before = omp_get_max_threads();
  const auto see = [](int threads) {
    return [threads](Communicator&) {
      expect(omp_get_max_threads() == threads, omp_get_max_threads());
    };
  };
  check_ranks(2, see(1));
  check_ranks(2, see(3), {.openmp_threads = 3});
  check_ranks(2, see(before), {.openmp_threads = 0});
  BOOST_TEST(omp_get_max_threads() == before);
}
#endif

}  // namespace

BOOST_AUTO_TEST_SUITE_END()

}  // namespace bdlm
