#include "conformance/cli/command.h"

#include <unistd.h>

#include <Eigen/Core>
#include <boost/version.hpp>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iostream>

#include "conformance/cli/build_info.h"
#include "conformance/cli/options.h"
#include "reference/base/error.h"
#include "reference/base/text.h"

namespace bdlm {
namespace {

std::string processor() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    const size_t colon = line.find(": ");
    if (line.rfind("model name", 0) == 0 && colon != std::string::npos) {
      return line.substr(colon + 2);
    }
  }
  return "unknown processor";
}

}  // namespace

std::vector<Scheme> parse_schemes(const std::vector<std::string>& names,
                                  const std::vector<Scheme>& all) {
  if (names.empty() || names == std::vector<std::string>{"all"}) {
    return all;
  }
  std::vector<Scheme> out;
  for (const std::string& text : names) {
    const auto named =
        std::find_if(all.begin(), all.end(), [&](Scheme known) { return text == name(known); });
    if (named == all.end()) {
      std::vector<std::string> allowed;
      for (const Scheme known : all) {
        allowed.emplace_back(name(known));
      }
      throw InputError(join("--scheme has '", printable(text), "'; allowed are ", listed(allowed),
                            names.size() > 1 ? ", or all by itself" : ", or all"));
    }
    const Scheme scheme = *named;
    if (std::find(out.begin(), out.end(), scheme) == out.end()) {
      out.push_back(scheme);
    }
  }
  return out;
}

std::vector<Interval> parse_documents(const std::vector<std::string>& texts) {
  std::vector<Interval> out;
  constexpr int64_t most = int64_t{1} << 40;
  for (const std::string& text : texts) {
    const size_t colon = text.find(':');
    require(colon != std::string::npos, "--documents has '", printable(text),
            "'; a document is begin:end, for instance 0:512");
    out.push_back({parse_integer("a document's begin", text.substr(0, colon), 0, most),
                   parse_integer("a document's end", text.substr(colon + 1), 0, most)});
  }
  return out;
}

void print_error(const std::string& text) {
  for (const char* variable : {"OMPI_COMM_WORLD_RANK", "PMI_RANK"}) {
    const char* rank = std::getenv(variable);
    if (rank != nullptr && std::string_view(rank) != "0") {
      return;
    }
  }
  std::cerr << "bdlm: " << printable(text, 2000) << std::endl;
}

RunInfo run_info(uint64_t seed) {
  RunInfo info;
  info.commit = build_commit;
  info.device = processor();
  info.versions = {
      {"bdlm", build_version},
      {"compiler", build_compiler},
      {"eigen", join(EIGEN_WORLD_VERSION, '.', EIGEN_MAJOR_VERSION, '.', EIGEN_MINOR_VERSION)},
      {"boost", BOOST_LIB_VERSION}};
  info.contract = "f64";
  info.seed = seed;
  return info;
}

class Progress::State {
 public:
  explicit State(bool shown) : shown_(shown), terminal_(isatty(STDERR_FILENO) == 1) {}
  ~State() {
    if (drawn_) {
      std::cerr << "\r\033[K" << std::flush;
    }
  }

  void show(const std::string& text) {
    const auto now = std::chrono::steady_clock::now();
    const std::chrono::duration<double> since = now - last_;
    if (!shown_ || since.count() < (terminal_ ? 0.2 : 10)) {
      return;
    }
    last_ = now;
    if (terminal_) {
      std::cerr << "\r\033[K" << text << std::flush;
      drawn_ = true;
    } else {
      std::cerr << text << '\n';
    }
  }

 private:
  bool shown_;
  bool terminal_;
  bool drawn_ = false;
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

Progress::Progress(bool shown) : state_(std::make_unique<State>(shown)) {}
Progress::~Progress() = default;
void Progress::show(const std::string& text) {
  state_->show(text);
}

}  // namespace bdlm
