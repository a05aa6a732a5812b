// Run by mpirun on 2, 3 and 4 ranks; every rank makes the same checks.
#include "reference/parallel/mpi_communicator.h"

#include <array>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "reference/base/error.h"
#include "reference/parallel/mpi_session.h"
#include "reference/parallel/testing_program.h"
#include "reference/parallel/thread_communicator.h"

namespace bdlm {
BOOST_AUTO_TEST_SUITE(mpi_communicator)

namespace {

using namespace std::chrono_literals;

struct Mpi {
  MpiSession session;
};
BOOST_TEST_GLOBAL_FIXTURE(Mpi);

template <class T>
Payload payload(std::vector<T>& values) {
  return {values.data(), static_cast<int64_t>(values.size()), element_type<T>()};
}

/// The text of the CommunicationError that `call` throws, or "".
template <class Call>
std::string error_of(const Call& call) {
  try {
    call();
  } catch (const CommunicationError& error) {
    return error.what();
  }
  return "";
}

void check_says(const std::string& text, const std::vector<std::string>& parts) {
  for (const std::string& part : parts) {
    BOOST_TEST(text.find(part) != std::string::npos, "'" << text << "' lacks '" << part << "'");
  }
}

// gathered = 1 | 2 | .. | P; Σ_r r + 1 = P (P + 1) / 2
BOOST_AUTO_TEST_CASE(literal_integers) {
  MpiCommunicator c;
  const int64_t ranks = c.size();
  std::vector<int64_t> own(1, c.rank() + 1);
  std::vector<int64_t> gathered(static_cast<size_t>(ranks), -1);
  std::vector<int64_t> sum(1, -1);
  const Ticket gather = c.all_gather(payload(own), payload(gathered), "x");
  std::vector<int64_t> many(static_cast<size_t>(ranks), c.rank() + 1);
  const Ticket scatter = c.reduce_scatter(payload(many), payload(sum), "x");
  c.wait(scatter);
  c.wait(gather);
  c.all_reduce(payload(own), "x");
  for (int64_t r = 0; r < ranks; ++r) {
    BOOST_TEST(gathered[static_cast<size_t>(r)] == r + 1);
  }
  BOOST_TEST(sum[0] == ranks * (ranks + 1) / 2);
  BOOST_TEST(own[0] == ranks * (ranks + 1) / 2);
}

// ((1 + 1e16) - 1e16) + 1 = 1 on 4 ranks
BOOST_AUTO_TEST_CASE(sums_are_in_rank_order) {
  MpiCommunicator c;
  const std::array<double, 4> terms{1.0, 1e16, -1e16, 1.0};
  double expected = terms[0];
  for (int r = 1; r < c.size(); ++r) {
    expected += terms.at(static_cast<size_t>(r));
  }
  std::vector<double> data(1001, terms.at(static_cast<size_t>(c.rank())));
  std::vector<double> send(static_cast<size_t>(c.size()), data[0]);
  std::vector<double> sum(1);
  c.all_reduce(payload(data), "x");
  c.wait(c.reduce_scatter(payload(send), payload(sum), "x"));
  BOOST_TEST((data == std::vector<double>(1001, expected)));
  BOOST_TEST(sum[0] == expected);
}

// The same program with threads in this process, and from the definitions: equal bits, equal logs.
// Small counts and pieces make every payload go by derived types, and all-reduce in many pieces.
BOOST_AUTO_TEST_CASE(random_programs_equal_those_of_threads) {
  const MpiOptions plain;
  const MpiOptions trusting{.check_shapes = false};
  const MpiOptions small{.largest_count = 24, .all_reduce_bytes = 100};
  for (const MpiOptions& options : {plain, trusting, small}) {
    MpiCommunicator c(MPI_COMM_WORLD, options);
    for (uint64_t seed = 1; seed <= 10; ++seed) {
      c.clear_log();
      const auto got = testing::run_program(c, seed, 50, seed % 2 == 0);
      std::vector<testing::ProgramResult> threads(static_cast<size_t>(c.size()));
      run_ranks(c.size(), [&](Communicator& t) {
        threads[static_cast<size_t>(t.rank())] = testing::run_program(t, seed, 50, false);
      });
      BOOST_TEST((got == threads[static_cast<size_t>(c.rank())]), "seed " << seed);
      BOOST_TEST((got == testing::expected_result(c.rank(), c.size(), seed, 50)));
    }
  }
}

BOOST_AUTO_TEST_CASE(a_group_of_one) {
  MpiCommunicator c(MPI_COMM_SELF);
  const auto got = testing::run_program(c, 7, 50, false);
  BOOST_TEST((got == testing::expected_result(0, 1, 7, 50)));
}

BOOST_AUTO_TEST_CASE(disagreements_reach_every_rank) {
  const int last = MpiCommunicator().size() - 1;
  {
    MpiCommunicator c;
    std::vector<double> data(c.rank() == last ? 4 : 5);
    check_says(error_of([&] { c.all_reduce(payload(data), "x"); }),
               {"operation 0", "rank 0 calls all_reduce of 5 f64",
                join("rank ", last, " calls all_reduce of 4 f64")});
    check_says(error_of([&] { c.all_reduce(payload(data), "x"); }), {"operation 0"});
  }
  {
    MpiCommunicator c;
    std::vector<double> data(5);
    std::vector<int64_t> integers(5);
    check_says(
        error_of([&] { c.all_reduce(c.rank() == last ? payload(integers) : payload(data), "x"); }),
        {"5 f64", "5 i64", "element types"});
  }
  {
    MpiCommunicator c;
    std::vector<double> small(1);
    std::vector<double> large(static_cast<size_t>(c.size()));
    check_says(error_of([&] {
                 c.wait(c.rank() == last ? c.reduce_scatter(payload(large), payload(small), "x")
                                         : c.all_gather(payload(small), payload(large), "x"));
               }),
               {"rank 0 calls all_gather of 1 f64", "calls reduce_scatter", "same operation"});
  }
  {
    MpiCommunicator c;
    std::vector<float> out(3);
    std::vector<float> in(2);
    std::vector<PeerPayload> sends;
    std::vector<PeerPayload> receives;
    if (c.rank() == 0) {
      sends.push_back({last, payload(out)});
    }
    if (c.rank() == last) {
      receives.push_back({0, payload(in)});
    }
    check_says(error_of([&] { c.wait(c.exchange(sends, receives, "x")); }),
               {join("rank 0 sends 3 f32 to rank ", last), "expects 2 f32"});
  }
}

struct Host {
  Host& operator+=(const Host&) { return *this; }
};

BOOST_AUTO_TEST_CASE(host_objects_are_refused) {
  MpiCommunicator c;
  std::vector<Host> data(2);
  BOOST_CHECK_THROW(c.all_reduce(payload(data), "x"), InputError);
  BOOST_CHECK_THROW(c.exchange({{c.rank() == 0 ? 1 : 0, payload(data)}}, {}, "x"), InputError);
}

BOOST_AUTO_TEST_CASE(a_late_rank_within_the_limit) {
  MpiCommunicator c;
  std::vector<int64_t> data(3, 1);
  if (c.rank() == 1) {
    std::this_thread::sleep_for(300ms);
  }
  c.all_reduce(payload(data), "x");
  BOOST_TEST(data[2] == c.size());
}

// With the comparison and without it, in a collective and in an exchange.
BOOST_AUTO_TEST_CASE(a_late_rank_beyond_the_limit) {
  for (const bool check_shapes : {true, false}) {
    for (const bool collective : {true, false}) {
      MpiCommunicator c(MPI_COMM_WORLD, {.time_limit = 200ms, .check_shapes = check_shapes});
      const int peer = c.rank() == 0 ? 1 : 0;
      // Static: after a failure MPI may still write to it.
      static std::vector<int64_t> out(3);
      static std::vector<int64_t> in(3);
      const auto call = [&] {
        if (collective) {
          c.all_reduce(payload(out), "x");
        } else if (c.rank() <= 1) {
          c.wait(c.exchange({}, {{peer, payload(in)}}, "x"));
        } else {
          c.wait(c.exchange({}, {}, "x"));
        }
      };
      const auto begin = std::chrono::steady_clock::now();
      if (c.rank() == 0) {
        const std::string text = error_of(call);
        check_says(text, {"rank 0: operation 0 (", collective ? "all_reduce of 3 i64" : "exchange",
                          " bytes: not complete after 200 ms"});
        BOOST_TEST(error_of(call) == text);
      }
      BOOST_TEST((std::chrono::steady_clock::now() - begin < 5s));
    }
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

BOOST_AUTO_TEST_CASE(mpi_errors_are_errors) {
  BOOST_TEST(!mpi_error_text(MPI_ERR_TRUNCATE).empty());
  check_says(error_of([] { require_mpi(MPI_ERR_COUNT, "a call of ", 3); }),
             {"a call of 3: MPI_ERR"});
  BOOST_CHECK_NO_THROW(require_mpi(MPI_SUCCESS, "x"));
  if (MpiCommunicator().size() == 2) {
    // Without the comparison a message longer than expected is MPI's own error.
    MpiCommunicator c(MPI_COMM_WORLD, {.time_limit = 5s, .check_shapes = false});
    std::vector<int64_t> out(c.rank() == 0 ? 4 : 1, 9);
    std::vector<int64_t> in(1);
    if (c.rank() == 0) {
      c.wait(c.exchange({{1, payload(out)}}, {}, "x"));
    } else {
      check_says(error_of([&] {
                   c.wait(c.exchange({}, {{0, payload(in)}}, "x"));
                 }),
                 {"rank 1: operation 0 (exchange), 8 bytes: MPI_ERR_TRUNCATE"});
    }
  }
}

}  // namespace

BOOST_AUTO_TEST_SUITE_END()

}  // namespace bdlm
