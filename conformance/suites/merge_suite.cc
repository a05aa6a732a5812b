// T4: merges of partial attention states, by themselves and in chains, against the definition in
// double; exact where the merge is: empty sides, the order of the sides.

#include <algorithm>
#include <bit>
#include <functional>

#include "conformance/plugin/calls.h"
#include "conformance/report/case_id.h"
#include "conformance/suites/backend_failure.h"
#include "conformance/suites/backend_suite.h"
#include "conformance/suites/merge_bound.h"
#include "reference/base/philox.h"
#include "reference/base/special_values.h"

namespace bdlm {
namespace {

/// Rows of one head; both sides of every row.
struct Sides {
  int64_t d = 0;
  std::vector<BoundedState> a, b;
};

BoundedState side(const Contract& contract, const std::vector<double>& o, double z) {
  BoundedState out;
  for (const double x : o) {
    out.o.push_back(round_to(x, contract.partial_o));
  }
  out.o_bound.assign(o.size(), 0);
  out.z = round_to(z, contract.lse);
  return out;
}

AttentionState flat(const std::vector<BoundedState>& rows) {
  AttentionState out;
  for (const BoundedState& row : rows) {
    out.o.insert(out.o.end(), row.o.begin(), row.o.end());
    out.lse.push_back(row.z);
  }
  return out;
}

AttentionState merged(const Backend& backend, int64_t d, const AttentionState& a,
                      const AttentionState& b, const CallOptions& options = {}) {
  AttentionForwardResult result = call_merge(backend, 1, d, a, b, options);
  require_call("merge", result.status, result.violation);
  return std::move(result.out);
}

/// Elements against their bounds.
class Comparison {
 public:
  void element(double got, double value, double bound, const std::string& where) {
    const auto wrong = [&](Reason reason, const std::string& how) {
      if (reason_ == Reason::none || (reason == Reason::nonfinite && reason_ != reason)) {
        reason_ = reason;
        detail_ = join(how, " at ", where, ": ", got, " for ", value, ", H ", bound);
      }
    };
    if (!std::isfinite(value) || !std::isfinite(got)) {
      if (std::isnan(value) != std::isnan(got) || (!std::isnan(value) && value != got)) {
        wrong(Reason::nonfinite, std::isnan(value) ? "NaN is lost" : "a value is wrong");
      }
      return;
    }
    if (bound == 0) {
      if (std::bit_cast<uint64_t>(got) != std::bit_cast<uint64_t>(value) &&
          !(got == 0 && value == 0)) {
        wrong(Reason::bitwise, "the other side does not come back bit for bit");
      }
      return;
    }
    const double ratio = std::abs(got - value) / bound;
    worst_ = std::max(worst_, ratio);
    if (ratio > 1) {
      wrong(Reason::bound, join("off by ", ratio, " times the bound"));
    }
  }
  void rows(const AttentionState& got, const std::vector<BoundedState>& expected) {
    size_t at = 0;
    for (size_t row = 0; row < expected.size(); ++row) {
      for (size_t c = 0; c < expected[row].o.size(); ++c, ++at) {
        element(got.o[at], expected[row].o[c], expected[row].o_bound[c],
                join("O of row ", row, ", channel ", c));
      }
      element(got.lse[row], expected[row].z, expected[row].z_bound, join("LSE of row ", row));
    }
  }
  CaseResult result() const {
    CaseResult out;
    out.figures = {{"err_over_h", worst_}};
    out.verdict = reason_ == Reason::none ? Verdict::pass : Verdict::fail;
    out.reason = reason_;
    out.detail = detail_;
    return out;
  }

 private:
  double worst_ = 0;
  Reason reason_ = Reason::none;
  std::string detail_;
};

/// Bits that differ between two states, in words.
std::string first_difference(const AttentionState& a, const AttentionState& b) {
  const auto same = [](const std::vector<double>& x, const std::vector<double>& y) {
    return std::equal(x.begin(), x.end(), y.begin(), y.end(), [](double p, double q) {
      return std::bit_cast<uint64_t>(p) == std::bit_cast<uint64_t>(q) ||
             (std::isnan(p) && std::isnan(q));
    });
  };
  return !same(a.lse, b.lse) ? "LSE" : !same(a.o, b.o) ? "O" : "";
}

CaseResult differs(const std::string& what) {
  CaseResult out;
  out.verdict = Verdict::fail;
  out.reason = Reason::bitwise;
  out.detail = what;
  return out;
}

/// One merge of all rows: right, in either order, and in the memory of the first side.
CaseResult judge(const Backend& backend, const Sides& sides) {
  const Contract& contract = backend.contract();
  Comparison comparison;
  std::vector<BoundedState> expected;
  for (size_t row = 0; row < sides.a.size(); ++row) {
    expected.push_back(merge_bound(contract, sides.a[row], sides.b[row]));
  }
  const AttentionState a = flat(sides.a);
  const AttentionState b = flat(sides.b);
  const AttentionState got = merged(backend, sides.d, a, b);
  comparison.rows(got, expected);
  CaseResult result = comparison.result();
  if (result.verdict != Verdict::pass) {
    return result;
  }
  if (const std::string what = first_difference(got, merged(backend, sides.d, b, a));
      !what.empty()) {
    return differs("not commutative: " + what + " differs when the sides change places");
  }
  CallOptions in_place;
  in_place.in_place = true;
  if (const std::string what = first_difference(got, merged(backend, sides.d, a, b, in_place));
      !what.empty()) {
    return differs(what + " differs when the first side is merged in its own memory");
  }
  return result;
}

/// The largest number of the partial format, but for some bits.
double near_largest(const Contract& contract) {
  const FormatBits format = format_bits(contract.partial_o);
  const double largest = std::ldexp(2 - std::ldexp(1.0, -format.fraction), format.highest_exponent);
  return round_to(largest * (1 - 4 * unit_roundoff(contract.partial_o)), contract.partial_o,
                  Rounding::truncate);
}

struct Named {
  const char* name;
  std::function<void(const Contract&, Sides&)> fill;
};

/// Rows that are made by hand, five channels.
const std::vector<Named>& special() {
  const auto add = [](const Contract& c, Sides& s, double oa, double za, double ob, double zb) {
    const auto five = [](double x) { return std::vector<double>{x, -x, x / 2, x, -x / 4}; };
    s.d = 5;
    s.a.push_back(side(c, five(oa), za));
    s.b.push_back(side(c, five(ob), zb));
  };
  static const std::vector<Named> all{
      {"bothempty", [=](const Contract& c, Sides& s) { add(c, s, 0, -infinity, 0, -infinity); }},
      {"emptygarbage",
       [=](const Contract& c, Sides& s) {
         add(c, s, 0, -infinity, nan_value, -infinity);
         add(c, s, nan_value, -infinity, nan_value, -infinity);
         add(c, s, nan_value, -infinity, 1.75, 3.5);
         add(c, s, -0.625, -70, nan_value, -infinity);
         add(c, s, 0.3, 1e30, infinity, -infinity);
       }},
      {"vanishing",
       [=](const Contract& c, Sides& s) {
         const double large = c.partial_o == Dtype::fp16 ? 1e4 : 1e8;
         add(c, s, large, -100, 1, 100);
         add(c, s, 1, 0, large, -200);
       }},
      {"differences",
       [=](const Contract& c, Sides& s) {
         for (const double x : {1e-3, 0.5, 17.0, 60.0, 87.3, 88.8, 104.0, 200.0, 745.0}) {
           add(c, s, 1.25, x / 2, -3, -x / 2);
           add(c, s, 0.7, -x, 0.9, 0);
         }
       }},
      {"equal",
       [=](const Contract& c, Sides& s) {
         for (const double z : {0.0, 1e4, -1e4, -1e30, 1e30}) {
           add(c, s, 1.5, z, -0.3, z);
         }
       }},
      {"nan",
       [=](const Contract& c, Sides& s) {
         add(c, s, 1, nan_value, 2, 0.5);
         add(c, s, 1, 0.25, 2, nan_value);
         add(c, s, 1, nan_value, 0, -infinity);
         add(c, s, 0, -infinity, 1, nan_value);
         add(c, s, 1, nan_value, 1, nan_value);
       }},
      {"infinite",
       [=](const Contract& c, Sides& s) {
         add(c, s, 1, infinity, 2, 0.5);
         add(c, s, 1, infinity, 2, infinity);
         add(c, s, 0, -infinity, 2, infinity);
       }},
      {"largest",
       [=](const Contract& c, Sides& s) {
         const double large = near_largest(c);
         for (const double x : {0.0, 0.3, 3.0, 30.0}) {
           add(c, s, large, x, large, 0);
           add(c, s, large, 0, -large, x);
         }
       }},
  };
  return all;
}

Sides random_sides(const Contract& contract, int64_t rows, int64_t d, double spread) {
  const Philox random(11, 0, 0);
  const Philox shift(11, 1, 0);
  Sides out;
  out.d = d;
  const auto fill = [&](std::vector<BoundedState>& to, int64_t which) {
    for (int64_t row = 0; row < rows; ++row) {
      std::vector<double> o;
      for (int64_t c = 0; c < d; ++c) {
        o.push_back(random.gaussian((which * rows + row) * d + c));
      }
      to.push_back(side(contract, o, spread * shift.gaussian(which * rows + row)));
    }
  };
  fill(out.a, 0);
  fill(out.b, 1);
  return out;
}

/// `length` merges one after another into a state, each result as the backend gave it.
CaseResult judge_chain(const Backend& backend, int64_t length, const Sides& start,
                       const std::function<std::vector<BoundedState>(int64_t)>& next) {
  std::vector<BoundedState> expected = start.a;
  AttentionState state = flat(start.a);
  CallOptions in_place;
  in_place.in_place = true;
  for (int64_t i = 0; i < length; ++i) {
    const std::vector<BoundedState> more = next(i);
    state = merged(backend, start.d, state, flat(more), i % 2 == 0 ? CallOptions{} : in_place);
    for (size_t row = 0; row < expected.size(); ++row) {
      expected[row] = merge_bound(backend.contract(), expected[row], more[row]);
    }
  }
  Comparison comparison;
  comparison.rows(state, expected);
  return comparison.result();
}

CaseResult random_chain(const Backend& backend, int64_t length) {
  const Contract& contract = backend.contract();
  const Sides start = random_sides(contract, 6, 8, 3);
  return judge_chain(backend, length, start, [&](int64_t i) {
    const Philox random(12, static_cast<uint32_t>(i), 0);
    std::vector<BoundedState> out;
    for (int64_t row = 0; row < 6; ++row) {
      std::vector<double> o;
      for (int64_t c = 0; c < 8; ++c) {
        o.push_back(random.gaussian(row * 9 + c));
      }
      // Now and then nothing.
      const bool empty = (i + row) % 7 == 3;
      out.push_back(side(contract, o, empty ? -infinity : 3 * random.gaussian(row * 9 + 8)));
    }
    return out;
  });
}

/// Keys of probability 2^-24 each, one after another, on a row of z = 0 and O = 0: after 4,096 of
/// them O is 2.44e-4 and so is z. Weights from a rounded z, or log(1 + w), lose them all.
CaseResult tiny_shares(const Backend& backend, int64_t length) {
  const Contract& contract = backend.contract();
  Sides start;
  start.d = 2;
  start.a.push_back(side(contract, {0, 0.5}, 0));
  std::vector<BoundedState> more{side(contract, {1, 0.5}, -24 * std::log(2.0))};
  return judge_chain(backend, length, start, [&](int64_t) { return more; });
}

/// Two keys of scores -60000 and -60001: O = 0.731 and 0.269 of their values.
CaseResult far_below(const Backend& backend) {
  const double p = 1 / (1 + std::exp(-1.0));
  const Contract& contract = backend.contract();
  AttentionCall call;
  call.sequence = Sequence::uniform(2, 2);
  call.shape = {1, 1, 2};
  call.rows = RowSet({}, {{1, 2}});
  call.q = {-250, -1};
  call.key_sets.push_back({RowSet({}, {{0, 2}}), {240, 0, 240, 1}, {1, 0, 0, 1}, {{0, 2}}});
  const AttentionForwardResult result = call_attention(backend, call, nullptr, Stage::final);
  require_call("attention", result.status, result.violation);
  const ErrorModel model(contract, 2);
  // Scores are sums of two exact products; exp and the division follow.
  const double bound = model.u() * (limits::exp_roundings + limits::score_roundings) +
                       model.site(contract.p) + model.site(contract.o);
  Comparison comparison;
  comparison.element(result.out.o[0], p, bound, "O of the nearer key");
  comparison.element(result.out.o[1], 1 - p, bound, "O of the farther key");
  comparison.element(
      result.out.lse[0], -60000 + std::log1p(std::exp(-1.0)),
      (model.u() + unit_roundoff(contract.lse)) * 60000 + model.u() * limits::exp_roundings, "LSE");
  return comparison.result();
}

/// Rows across many threads, whose new part is far above the state: a thread that reads a row's
/// maximum after another has overwritten it is wrong.
CaseResult repeated_in_place(const Backend& backend) {
  const Contract& contract = backend.contract();
  Sides sides = random_sides(contract, 96, 128, 1);
  for (BoundedState& row : sides.b) {
    row.z = round_to(row.z + 40, contract.lse);
  }
  CallOptions in_place;
  in_place.in_place = true;
  for (int repeat = 0; repeat < 30; ++repeat) {
    in_place.tensors.poison = static_cast<uint64_t>(repeat) + 1;
    std::vector<BoundedState> expected;
    for (size_t row = 0; row < sides.a.size(); ++row) {
      expected.push_back(merge_bound(contract, sides.a[row], sides.b[row]));
    }
    Comparison comparison;
    comparison.rows(merged(backend, sides.d, flat(sides.a), flat(sides.b), in_place), expected);
    CaseResult result = comparison.result();
    if (result.verdict != Verdict::pass || repeat == 29) {
      return result;
    }
  }
  return {};
}

}  // namespace

std::vector<BackendCase> merge_cases(const Selection& selection) {
  std::vector<BackendCase> out;
  const auto add = [&](const CaseId& id, std::function<CaseResult(const Backend&)> run) {
    out.push_back({id.str(), "T4", Scheme::monolithic, 1, std::move(run)});
  };
  for (const Named& each : special()) {
    add(CaseId("merge").word("rows", each.name), [&each](const Backend& backend) {
      Sides sides;
      each.fill(backend.contract(), sides);
      return judge(backend, sides);
    });
  }
  for (const int64_t d : {1, 16, 80, 128}) {
    for (const int64_t spread : {1, 30}) {
      add(CaseId("merge").word("rows", "random").number("d", d).number("spread", spread),
          [=](const Backend& backend) {
            return judge(backend,
                         random_sides(backend.contract(), 50, d, static_cast<double>(spread)));
          });
    }
  }
  for (const int64_t length : {8, 64, 512}) {
    add(CaseId("merge").word("rows", "chain").number("n", length),
        [=](const Backend& backend) { return random_chain(backend, length); });
  }
  const int64_t shares = selection.level == Level::quick ? 512 : 4096;
  for (const int64_t length : {int64_t{1}, shares}) {
    add(CaseId("merge").word("rows", "tinyshares").number("n", length),
        [=](const Backend& backend) { return tiny_shares(backend, length); });
  }
  add(CaseId("merge").word("rows", "farbelow"), far_below);
  add(CaseId("merge").word("rows", "inplace"), repeated_in_place);
  return out;
}

}  // namespace bdlm
