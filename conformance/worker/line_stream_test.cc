#include "conformance/worker/line_stream.h"

#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <thread>

using namespace bdlm;

BOOST_AUTO_TEST_SUITE(line_stream)

namespace {

using Got = LineReader::Got;

Deadline in(int64_t milliseconds) {
  return std::chrono::steady_clock::now() + std::chrono::milliseconds(milliseconds);
}

struct Pair {
  Pair() { BOOST_REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, files) == 0); }
  ~Pair() {
    close(files[0]);
    hang_up();
  }
  void hang_up() {
    if (files[1] >= 0) {
      close(files[1]);
      files[1] = -1;
    }
  }
  int files[2];
};

}  // namespace

BOOST_FIXTURE_TEST_CASE(lines_come_whole_however_they_were_written, Pair) {
  LineReader reader(files[0]);
  std::string line;
  BOOST_TEST((reader.next(line, in(1)) == Got::late));
  std::jthread writer([&] {
    for (const char* part : {"on", "e\n", "two\nthree\n\nfi", "ve", "\nrest"}) {
      write_all(files[1], part);
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    hang_up();
  });
  for (const char* expected : {"one", "two", "three", "", "five"}) {
    BOOST_REQUIRE((reader.next(line, in(10000)) == Got::line));
    BOOST_TEST(line == expected);
  }
  BOOST_TEST((reader.next(line, in(10000)) == Got::end));
  BOOST_TEST(reader.rest() == "rest");
}

BOOST_FIXTURE_TEST_CASE(a_long_line_passes_through_a_full_buffer_and_a_longer_one_is_an_end, Pair) {
  const std::string text(3 << 20, 'x');
  std::jthread writer([&] { write_all(files[1], text + "\n" + text + "\n"); });
  LineReader reader(files[0]);
  std::string line;
  BOOST_REQUIRE((reader.next(line, in(10000)) == Got::line));
  BOOST_TEST((line == text));
  LineReader strict(files[0], 1 << 20);
  BOOST_TEST((strict.next(line, in(10000)) == Got::end));
  // The writer must not wait for ever.
  shutdown(files[0], SHUT_RDWR);
}

BOOST_FIXTURE_TEST_CASE(a_side_that_is_gone_raises_no_signal, Pair) {
  hang_up();
  BOOST_TEST(!write_all(files[0], "anyone?\n"));
  BOOST_TEST(!write_all(-1, "x"));
}

BOOST_FIXTURE_TEST_CASE(interrupts_change_nothing, Pair) {
  struct sigaction action {};
  struct sigaction before {};
  action.sa_handler = [](int) {};
  sigaction(SIGUSR1, &action, &before);
  const pthread_t self = pthread_self();
  std::jthread other([&](const std::stop_token& stop) {
    for (int i = 0; i < 20; ++i) {
      pthread_kill(self, SIGUSR1);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    write_all(files[1], "late\n");
    while (!stop.stop_requested()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  });
  LineReader reader(files[0]);
  std::string line;
  BOOST_TEST((reader.next(line, std::nullopt) == Got::line));
  BOOST_TEST(line == "late");
  other.request_stop();
  other.join();
  sigaction(SIGUSR1, &before, nullptr);
}

BOOST_AUTO_TEST_SUITE_END()
