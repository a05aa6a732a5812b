#include "reference/parallel/cpu_engine.h"

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <mutex>

#include "reference/base/philox.h"
#include "reference/layout/ownership.h"
#include "reference/parallel/thread_communicator.h"
#include "reference/schedule/interpreter.h"
#include "reference/schedule/plan_builder.h"

namespace bdlm {
BOOST_AUTO_TEST_SUITE(cpu_engine_suite)

namespace {

constexpr AttentionShape shape{4, 2, 6};
constexpr double scale = 0.4;

/// One layer's tensors over all rows of both streams: corrupted, then clean.
struct Layer {
  std::vector<double> o, lse, dq, dk, dv;
};

std::vector<double> gaussian(uint32_t tensor, int64_t count) {
  const Philox random(7, tensor);
  std::vector<double> out(count);
  for (int64_t i = 0; i < count; ++i) {
    out[i] = random.gaussian(i);
  }
  return out;
}

/// Forward and backward of every rank's plan on threads. Outputs are put together by row; dK and dV
/// of rows that several ranks hold (BP) are summed, as their upstream paths would sum them.
Layer run_layer(const Sequence& sequence, Scheme scheme, int ranks, const LayerRule& rule,
                bool clean_cotangent) {
  const Ownership ownership = divide(sequence, scheme, ranks, {.clean_loss = clean_cotangent});
  const std::vector<RankPlan> plans = build_plans(sequence, ownership, rule);
  const int64_t length = sequence.length();
  const RowSet all({{0, length}}, {{0, length}});
  const int64_t q_width = shape.q_heads * shape.head_dim;
  const int64_t kv_width = shape.kv_heads * shape.head_dim;
  const std::vector<double> q = gaussian(0, 2 * length * q_width);
  const std::vector<double> k = gaussian(1, 2 * length * kv_width);
  const std::vector<double> v = gaussian(2, 2 * length * kv_width);
  std::vector<double> d_o = gaussian(3, 2 * length * q_width);
  if (!clean_cotangent) {
    std::fill(d_o.begin() + length * q_width, d_o.end(), 0.0);
  }
  Layer out{std::vector<double>(q.size(), poison<double>()),
            std::vector<double>(2 * length * shape.q_heads, poison<double>()),
            std::vector<double>(q.size(), 0.0), std::vector<double>(k.size(), 0.0),
            std::vector<double>(k.size(), 0.0)};
  std::mutex mutex;
  run_ranks(ranks, [&](Communicator& communicator) {
    const RankPlan& plan = plans[communicator.rank()];
    const auto part = [&](const std::vector<double>& whole, int64_t width, bool counted_only) {
      std::vector<double> rows(plan.rows.size() * width, 0.0);
      pack_rows(plan.rows, all, width, whole.data(), rows.data());
      if (counted_only) {  // a replicated row has its cotangent on one rank
        const RowSet& own_rows = ownership.counted[plan.rank];
        const RowSet counted(own_rows.rows(Stream::corrupted),
                             clean_cotangent ? own_rows.rows(Stream::clean) : IntervalSet{});
        std::vector<double> kept(rows.size(), 0.0);
        std::vector<double> own(counted.size() * width);
        pack_rows(counted, plan.rows, width, rows.data(), own.data());
        unpack_rows(counted, plan.rows, width, own.data(), kept.data());
        rows = kept;
      }
      return rows;
    };
    CpuEngine<double> engine(plan, shape, scale);
    engine.load(part(q, q_width, false).data(), part(k, kv_width, false).data(),
                part(v, kv_width, false).data());
    run(plan.forward, engine, communicator);
    engine.load_gradient(part(d_o, q_width, true).data());
    run(plan.backward, engine, communicator);
    const std::lock_guard lock(mutex);
    unpack_rows(plan.rows, all, q_width, engine.output().data(), out.o.data());
    unpack_rows(plan.rows, all, shape.q_heads, engine.lse().data(), out.lse.data());
    add_rows(plan.rows, all, q_width, engine.dq().data(), out.dq.data());
    add_rows(plan.rows, all, kv_width, engine.dk().data(), out.dk.data());
    add_rows(plan.rows, all, kv_width, engine.dv().data(), out.dv.data());
  });
  return out;
}

/// max |a - b| <= 1e-14 * max |b|, and infinities at the same places. NaN fails.
void check_close(const std::vector<double>& a, const std::vector<double>& b,
                 const std::string& what, bool may_vanish = false) {
  double worst = 0;
  double largest = 0;
  for (size_t i = 0; i < b.size(); ++i) {
    if (std::isinf(b[i]) || std::isinf(a[i])) {
      BOOST_TEST(a[i] == b[i], what);
      continue;
    }
    largest = std::max(largest, std::abs(b[i]));
    worst = std::max(worst, std::isnan(a[i] - b[i]) ? 1e300 : std::abs(a[i] - b[i]));
  }
  BOOST_TEST((largest > 0 || may_vanish), what);
  BOOST_TEST(worst <= 1e-14 * largest, what << ": " << worst << " of " << largest);
}

// O, z, dQ, dK, dV of CP, BP, CSBP = those of one rank, for every mask. Buffers begin as NaN and
// padding travels as NaN, so that a row read before it came, or padding in a sum, gives NaN here.
BOOST_AUTO_TEST_CASE(decompositions_are_one_function) {
  const std::vector<Sequence> sequences = {
      Sequence::uniform(24, 3),                               // even
      Sequence::uniform(23, 4, {{0, 5}, {5, 16}, {18, 23}}),  // documents, padding, short blocks
      Sequence::uniform(11, 1),                               // blocks of one token
      Sequence::with_blocks(21, {0, 7, 9, 10, 18, 19}),       // uneven blocks
  };
  for (const Sequence& sequence : sequences) {
    for (const CleanRule clean : {CleanRule::block_causal, CleanRule::token_causal}) {
      for (const int64_t window : {0, 1, 4, 100}) {
        const LayerRule rule{clean, window};
        const Layer whole = run_layer(sequence, Scheme::monolithic, 1, rule, true);
        const Layer corrupted_only = run_layer(sequence, Scheme::monolithic, 1, rule, false);
        for (const Scheme scheme : {Scheme::cp, Scheme::bp, Scheme::csbp}) {
          for (const int ranks : {1, 2, 3, 4}) {
            const std::string what = join(name(scheme), " P", ranks, " L", sequence.length(), " ",
                                          name(clean), " w", window, " ");
            // A BP rank's prefix may end inside a clean block, whose rows then carry no loss.
            const bool all = scheme != Scheme::bp || clean == CleanRule::token_causal;
            const Layer parts = run_layer(sequence, scheme, ranks, rule, all);
            const Layer& expected = all ? whole : corrupted_only;
            // Where every row sees one key, nothing depends on scores.
            const bool one_key = sequence.blocks() == sequence.length() && window == 1;
            check_close(parts.dq, expected.dq, what + "dq", one_key);
            check_close(parts.dk, expected.dk, what + "dk", one_key);
            check_close(parts.dv, expected.dv, what + "dv");
            if (all) {
              check_close(parts.o, expected.o, what + "o");
              check_close(parts.lse, expected.lse, what + "lse");
            }
          }
        }
      }
    }
  }
}

// merge(a, b) joins states attended apart: two half-attentions and a Merge = one attention.
BOOST_AUTO_TEST_CASE(states_are_merged) {
  const Sequence sequence = Sequence::uniform(8, 2);
  RankPlan one = build_plans(sequence, divide(sequence, Scheme::monolithic, 1), {})[0];
  RankPlan two = one;
  two.states = 2;
  const std::vector<Band> bands = std::get<Attend>(one.forward[0]).bands;
  two.forward = {Attend{0, 1, false, {bands.begin() + 3, bands.end()}},
                 Attend{0, 0, false, {bands.begin(), bands.begin() + 3}}, Merge{0, 1}};
  const int64_t q_size = one.rows.size() * shape.q_heads * shape.head_dim;
  const int64_t kv_size = one.rows.size() * shape.kv_heads * shape.head_dim;
  const std::vector<double> q = gaussian(0, q_size);
  const std::vector<double> k = gaussian(1, kv_size);
  const std::vector<double> v = gaussian(2, kv_size);
  std::vector<double> outputs[2];
  for (const RankPlan* plan : {&one, &two}) {
    run_ranks(1, [&](Communicator& communicator) {
      CpuEngine<double> engine(*plan, shape, scale);
      engine.load(q.data(), k.data(), v.data());
      run(plan->forward, engine, communicator);
      outputs[plan == &two] = engine.output();
    });
  }
  check_close(outputs[1], outputs[0], "merged");
}

// Rows that were not received are NaN, not stale or zero: attending before the wait shows.
BOOST_AUTO_TEST_CASE(reading_before_the_wait_gives_nan) {
  const Sequence sequence = Sequence::uniform(8, 2);
  std::vector<RankPlan> plans = build_plans(sequence, divide(sequence, Scheme::csbp, 2), {});
  for (RankPlan& plan : plans) {
    std::swap(plan.forward[2], plan.forward[3]);  // Wait and the Attend behind it
  }
  run_ranks(2, [&](Communicator& communicator) {
    const RankPlan& plan = plans[communicator.rank()];
    const std::vector<double> q = gaussian(0, plan.rows.size() * shape.q_heads * shape.head_dim);
    CpuEngine<double> engine(plan, shape, scale);
    engine.load(q.data(), q.data(), q.data());
    run(plan.forward, engine, communicator);
    bool any = false;
    for (const double x : engine.output()) {
      any = any || std::isnan(x);
    }
    if (!any) {
      throw LogicError("no NaN in the output");
    }
  });
}

}  // namespace

BOOST_AUTO_TEST_SUITE_END()

}  // namespace bdlm
