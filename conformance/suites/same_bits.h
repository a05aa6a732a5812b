#pragma once
// Comparison of results bit by bit.

#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "conformance/judge/attention_arrays.h"
#include "conformance/report/report.h"
#include "reference/base/error.h"

namespace bdlm {

/// Equal bits; any NaN equals any other.
inline bool same_bits(double a, double b) {
  return std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b) ||
         (std::isnan(a) && std::isnan(b));
}

/// Results by name, each a list of numbers.
using NamedResults = std::vector<std::pair<std::string, std::vector<double>>>;

inline NamedResults named(const AttentionOutputs& out) {
  NamedResults all;
  const auto add = [&](const char* tensor, const ByStream<double>& values) {
    for (int s = 0; s < 2; ++s) {
      all.emplace_back(join(tensor, " of the ", s == 0 ? "clean" : "corrupted", " stream"),
                       values[s]);
    }
  };
  add("O", out.o);
  add("LSE", out.lse);
  add("dQ", out.dq);
  add("dK", out.dk);
  add("dV", out.dv);
  return all;
}

/// "" where b is a, bit for bit; else how many numbers differ and which is the first.
inline std::string difference(const NamedResults& a, const NamedResults& b) {
  for (size_t t = 0; t < a.size(); ++t) {
    int64_t count = 0;
    size_t first = 0;
    for (size_t i = a[t].second.size(); i-- > 0;) {
      if (!same_bits(a[t].second[i], b.at(t).second.at(i))) {
        first = i;
        ++count;
      }
    }
    if (count > 0) {
      return join(count, " of ", a[t].second.size(), " numbers of ", a[t].first,
                  " differ, first number ", first, ": ", b[t].second[first], " for ",
                  a[t].second[first]);
    }
  }
  return "";
}

/// PASS for "", else FAIL (bitwise) with the text behind `what`.
inline CaseResult bitwise_result(const std::string& what, const std::string& differs) {
  CaseResult result;
  if (!differs.empty()) {
    result.verdict = Verdict::fail;
    result.reason = Reason::bitwise;
    result.detail = join(what, ": ", differs);
  }
  return result;
}

}  // namespace bdlm
