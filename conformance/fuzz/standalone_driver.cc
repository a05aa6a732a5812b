// Runs a fuzz target where there is no libFuzzer: every file of a corpus, then random mutations of
// them. It has no feedback from the code under test, so it finds less in the same time; it is meant
// for g++ with sanitizers.

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming)
extern "C" {
int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t most);
__attribute__((weak)) size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t most,
                                                     unsigned seed);
__attribute__((weak)) void __sanitizer_set_death_callback(void (*)());

/// GCC's runtime of undefined behaviour knows no such callback: it ends by SIGABRT instead. Only
/// that runtime calls this.
const char* __ubsan_default_options() {
  return "abort_on_error=1:print_stacktrace=1";
}
}
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)

namespace {

using Input = std::vector<uint8_t>;

constexpr unsigned longest_seconds = 20;  // of one input, under sanitizers on a busy machine
constexpr size_t most_bytes = 1 << 14;

/// Where the input under test is kept if the program ends on it. Written to by signal handlers, so
/// nothing of it is allocated there.
struct Finding {
  char path[4096] = {};
  const Input* input = nullptr;
};
Finding finding;

void keep_input() {
  if (finding.input == nullptr) {
    return;
  }
  const int file = ::open(finding.path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (file < 0) {
    return;
  }
  const ssize_t done = ::write(file, finding.input->data(), finding.input->size());
  static_cast<void>(done);
  ::close(file);
  const char* parts[] = {"the input is kept in ", finding.path, "\n"};
  for (const char* part : parts) {
    const ssize_t shown = ::write(STDERR_FILENO, part, std::strlen(part));
    static_cast<void>(shown);
  }
  finding.input = nullptr;
}

extern "C" void on_signal(int signal) {
  if (signal == SIGALRM) {
    const char text[] = "finding: an input takes too long\n";
    const ssize_t shown = ::write(STDERR_FILENO, text, sizeof(text) - 1);
    static_cast<void>(shown);
  }
  keep_input();
  ::_exit(1);
}

void catch_findings() {
  std::signal(SIGALRM, on_signal);
  std::signal(SIGABRT, on_signal);
  if (__sanitizer_set_death_callback != nullptr) {
    __sanitizer_set_death_callback(keep_input);  // faults are the sanitizer's to report
    return;
  }
  for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL}) {
    std::signal(signal, on_signal);
  }
}

void run(const Input& input) {
  // An own allocation of the exact size, so that reading one byte too far is seen.
  const Input copy(input.begin(), input.end());
  finding.input = &copy;
  ::alarm(longest_seconds);
  LLVMFuzzerTestOneInput(copy.data(), copy.size());
  ::alarm(0);
  finding.input = nullptr;
}

std::mt19937_64 random_words;
std::vector<Input> pool;

size_t below(size_t n) {
  return n == 0 ? 0 : random_words() % n;
}

constexpr const char* numbers[] = {"0",
                                   "-0",
                                   "1",
                                   "-1",
                                   "2",
                                   "7",
                                   "64",
                                   "255",
                                   "65536",
                                   "65537",
                                   "2147483648",
                                   "4294967296",
                                   "9223372036854775807",
                                   "9223372036854775808",
                                   "18446744073709551615",
                                   "-9223372036854775808",
                                   "1e308",
                                   "1e999",
                                   "0.5",
                                   "1e-320"};
constexpr const char* words[] = {"{",       "}",
                                 "[",       "]",
                                 ",",       ":",
                                 "\"",      "\\",
                                 "{}",      "[]",
                                 "null",    "true",
                                 "false",   "\"\"",
                                 "\\u0000", "\\ud800",
                                 "\xc3",    "\xff",
                                 "\n",      " ",
                                 "\"a\":",  "\"__metadata__\":{}",
                                 "[0,0]"};

/// Replaces `removed` bytes at `at` by `text`.
void replace(Input& input, size_t at, size_t removed, const uint8_t* text, size_t size) {
  const Input added(text, text + size);
  const auto begin = input.begin() + static_cast<std::ptrdiff_t>(at);
  input.erase(begin, begin + static_cast<std::ptrdiff_t>(removed));
  input.insert(input.begin() + static_cast<std::ptrdiff_t>(at), added.begin(), added.end());
}

void replace(Input& input, size_t at, size_t removed, const char* text) {
  replace(input, at, removed, reinterpret_cast<const uint8_t*>(text), std::strlen(text));
}

/// Another number in place of one, if a random place is before one.
void change_number(Input& input) {
  size_t at = below(input.size());
  while (at < input.size() && std::isdigit(input[at]) == 0) {
    ++at;
  }
  size_t end = at;
  while (end < input.size() && std::isdigit(input[end]) != 0) {
    ++end;
  }
  if (at < end) {
    replace(input, at, end - at, numbers[below(std::size(numbers))]);
  }
}

void mutate_once(Input& input) {
  const size_t size = input.size();
  const size_t at = below(size + 1);
  const size_t part = below(size - at + 1);
  const size_t some = std::min(part, 1 + below(16));
  switch (below(10)) {
    case 0:
      if (at < size) {
        input[at] ^= static_cast<uint8_t>(1u << below(8));
      }
      break;
    case 1:
      if (at < size) {
        input[at] = static_cast<uint8_t>(random_words());
      }
      break;
    case 2:
      replace(input, at, some, "");
      break;
    case 3:
      replace(input, at, 0, words[below(std::size(words))]);
      break;
    case 4:
      replace(input, at, some, words[below(std::size(words))]);
      break;
    case 5: {  // once more, elsewhere
      const Input copy(input);
      replace(input, below(size + 1), 0, copy.data() + at, part);
      break;
    }
    case 6: {  // a part of another input
      const Input other = pool[below(pool.size())];
      const size_t from = below(other.size() + 1);
      replace(input, at, some, other.data() + from, below(other.size() - from + 1));
      break;
    }
    case 7:
      input.resize(at);
      break;
    default:
      change_number(input);
  }
}

/// A mutant of some input of the pool, which takes it up now and then.
Input next_input(size_t seeds) {
  Input input = pool[below(pool.size())];
  size_t size = std::min(input.size(), most_bytes);
  input.resize(most_bytes, 0);
  if (LLVMFuzzerCustomMutator != nullptr) {
    size = LLVMFuzzerCustomMutator(input.data(), size, most_bytes,
                                   static_cast<unsigned>(random_words()));
  } else {
    size = LLVMFuzzerMutate(input.data(), size, most_bytes);
  }
  input.resize(size);
  if (below(8) == 0) {
    if (pool.size() < 2 * seeds + 16) {
      pool.push_back(input);
    } else {
      pool[seeds + below(pool.size() - seeds)] = input;
    }
  }
  return input;
}

struct Arguments {
  int64_t runs = 0;
  int64_t seconds = 0;
  uint64_t seed = 1;
  std::string findings = ".";
  std::vector<std::string> corpora;
};

int usage() {
  std::cerr << "arguments: [--runs N] [--seconds N] [--seed N] [--findings FOLDER] CORPUS...\n";
  return 2;
}

}  // namespace

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t most) {
  Input input(data, data + size);
  for (size_t times = 1 + below(6); times > 0; --times) {
    mutate_once(input);
  }
  size = std::min(input.size(), most);
  std::copy_n(input.data(), size, data);
  return size;
}

int main(int count, char** values) {
  Arguments arguments;
  for (int i = 1; i < count; ++i) {
    const std::string word = values[i];
    if (word.rfind("--", 0) != 0) {
      arguments.corpora.push_back(word);
      continue;
    }
    if (++i == count) {
      return usage();
    }
    if (word == "--runs") {
      arguments.runs = std::atoll(values[i]);
    } else if (word == "--seconds") {
      arguments.seconds = std::atoll(values[i]);
    } else if (word == "--seed") {
      arguments.seed = static_cast<uint64_t>(std::atoll(values[i]));
    } else if (word == "--findings") {
      arguments.findings = values[i];
    } else {
      return usage();
    }
  }
  for (const std::string& corpus : arguments.corpora) {
    for (const auto& entry : std::filesystem::directory_iterator(corpus)) {
      std::ifstream file(entry.path(), std::ios::binary);
      pool.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
    }
  }
  if (pool.empty()) {
    std::cerr << "there is no file in the corpus\n";
    return 2;
  }
  // The order of a folder differs between machines.
  std::sort(pool.begin(), pool.end());
  random_words.seed(arguments.seed);
  const std::string path = arguments.findings + "/finding-" + std::to_string(::getpid());
  if (path.size() >= sizeof(finding.path)) {
    return usage();
  }
  std::memcpy(finding.path, path.c_str(), path.size() + 1);
  catch_findings();

  const size_t seeds = pool.size();
  const std::vector<Input> corpus = pool;
  for (const Input& input : corpus) {
    run(input);
  }
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(arguments.seconds);
  int64_t runs = 0;
  while (runs < arguments.runs || std::chrono::steady_clock::now() < end) {
    run(next_input(seeds));
    ++runs;
  }
  std::cout << seeds << " files of the corpus and " << runs << " mutants: no finding\n";
  return 0;
}
