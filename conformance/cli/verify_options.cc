#include "conformance/cli/verify_options.h"

#include <algorithm>

#include "conformance/cli/command.h"
#include "conformance/cli/options.h"
#include "reference/base/error.h"
#include "reference/base/text.h"

namespace bdlm {
namespace {

/// For a shell: as it is, or in quotes.
std::string quoted(const std::string& text) {
  const bool plain = std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("./_-+=:,@%").find(c) != std::string_view::npos;
  });
  if (plain) {
    return text;
  }
  std::string out = "'";
  for (const char c : text) {
    out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  }
  return out + "'";
}

}  // namespace

Shard parse_shard(const std::string& text) {
  const size_t slash = text.find('/');
  require(slash != std::string::npos, "--shard is '", printable(text),
          "'; allowed is i/n, for instance 2/4");
  constexpr int64_t most = 1000000;
  Shard shard;
  shard.count = parse_integer("--shard's n", text.substr(slash + 1), 1, most);
  shard.index = parse_integer("--shard's i", text.substr(0, slash), 1, shard.count);
  return shard;
}

void check_shard_has_cases(const std::string& shard, size_t cases) {
  require(cases > 0, "--shard ", printable(shard), " has no case; there are fewer than its n");
}

Selection selection_of(const VerifyOptions& options) {
  Selection selection;
  selection.level = parse_level(options.level);
  selection.ids = options.ids;
  selection.tiers = options.tiers;
  if (!options.schemes.empty()) {
    selection.schemes = options.backend.empty()
                            ? parse_schemes(options.schemes, {Scheme::cp, Scheme::bp, Scheme::csbp})
                            : parse_schemes(options.schemes, {Scheme::monolithic, Scheme::cp,
                                                              Scheme::bp, Scheme::csbp});
  }
  selection.ranks = options.ranks;
  selection.seeds = options.seeds;
  return selection;
}

std::string rerun_options(const VerifyOptions& options) {
  std::string out;
  const auto add = [&](const char* option, const std::string& value) {
    out += join(out.empty() ? "" : " ", option, ' ', quoted(value));
  };
  for (const auto& [option, value] : {std::pair{"--backend", &options.backend},
                                      {"--outputs", &options.outputs},
                                      {"--golden", &options.golden}}) {
    if (!value->empty()) {
      add(option, *value);
    }
  }
  if (!options.contract.empty()) {
    add("--contract", options.contract);
  }
  if (options.level != "quick") {
    add("--level", options.level);
  }
  if (!options.ranks.empty()) {
    std::string ranks;
    for (const int n : options.ranks) {
      ranks += join(ranks.empty() ? "" : ",", n);
    }
    add("--ranks", ranks);
  }
  if (options.seeds != 1) {
    add("--seeds", join(options.seeds));
  }
  if (options.timeout > 0) {
    add("--timeout", join(options.timeout));
  }
  return out;
}

}  // namespace bdlm
