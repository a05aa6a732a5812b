// What holds of attention bit for bit: masks, threads, states; and what is refused.

#include "optimized/cpu/attention_call_test.h"
#include "optimized/cpu/backend.h"
#include "reference/base/parallel_for.h"

namespace bdlm {
BOOST_AUTO_TEST_SUITE(attention_bits)

namespace {

using test::AttentionCall;
using test::AttentionResult;

constexpr double infinity = std::numeric_limits<double>::infinity();

/// Sizes around those of tiles; several KV heads, and one.
const std::vector<AttentionShape> shapes{{4, 2, 20}, {6, 6, 16}, {5, 1, 33}};

/// The bits of one row of one head, or of all heads.
std::vector<double> row(const test::HostTensor& tensor, int64_t index) {
  const int64_t width = tensor.count() / tensor.shape()[0];
  std::vector<double> out;
  for (int64_t c = 0; c < width; ++c) {
    out.push_back(tensor.at(index * width + c));
  }
  return out;
}

void set_row(test::HostTensor& tensor, int64_t index, double x) {
  const int64_t width = tensor.count() / tensor.shape()[0];
  for (int64_t c = 0; c < width; ++c) {
    tensor.set(index * width + c, x);
  }
}

// A key that holds NaN, infinities or huge numbers reaches the rows that see it and no others; a
// query row or a cotangent that holds them reaches its own outputs and the keys that it sees.
BOOST_AUTO_TEST_CASE(what_is_not_seen_does_not_matter) {
  const test::Driver driver(bdlm_cpu_backend());
  for (const AttentionShape& shape : shapes) {
    for (const double bad : {std::numeric_limits<double>::quiet_NaN(),
                             std::numeric_limits<double>::infinity(), 3e38, -3e38}) {
      AttentionCall call(75, {70, 131}, shape, 5);
      const auto right = test::run(driver, call);
      const int64_t key = 66;
      set_row(*call.k[1], key, bad);
      set_row(*call.v[1], key, bad);
      auto got = test::run(driver, call);
      int64_t unseen = 0;
      for (int64_t r = 0; r < 75; ++r) {
        if (!call.sees(1, r, key)) {
          ++unseen;
          BOOST_TEST(row(got->o, r) == row(right->o, r));
          BOOST_TEST(row(got->lse, r) == row(right->lse, r));
          BOOST_TEST(row(got->dq, r) == row(right->dq, r));
        } else if (!std::isfinite(bad)) {
          BOOST_TEST(!std::isfinite(got->o.at(r * shape.q_heads * shape.head_dim)));
        }
      }
      BOOST_TEST((unseen > 5 && unseen < 70));

      AttentionCall other(75, {70, 131}, shape, 5);
      const int64_t query = 40;
      set_row(other.q, query, bad);
      set_row(other.d_o, query, bad);
      got = test::run(driver, other);
      for (int64_t r = 0; r < 75; ++r) {
        if (r != query) {
          BOOST_TEST(row(got->o, r) == row(right->o, r));
          BOOST_TEST(row(got->dq, r) == row(right->dq, r));
        }
      }
      for (int64_t j = 0; j < 131; ++j) {
        if (!other.sees(1, query, j)) {
          BOOST_TEST(row(*got->dk[1], j) == row(*right->dk[1], j));
          BOOST_TEST(row(*got->dv[1], j) == row(*right->dv[1], j));
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(threads_change_no_bits) {
  const test::Driver driver(bdlm_cpu_backend());
  const int before = max_threads();
  for (const AttentionShape& shape : shapes) {
    AttentionCall call(150, {201, 64}, shape, 6);
    set_max_threads(1);
    const auto one = test::run(driver, call)->bits();
    for (const int threads : {2, 3, 4, 7}) {
      set_max_threads(threads);
      BOOST_TEST((test::run(driver, call)->bits() == one), threads << " threads");
    }
  }
  set_max_threads(before);
}

// Rows that see nothing keep their state, and get (0, -inf) where they have none. States and dQ may
// be continued in place.
BOOST_AUTO_TEST_CASE(states) {
  const test::Driver driver(bdlm_cpu_backend());
  const AttentionShape shape{4, 2, 20};
  AttentionCall call(75, {70, 131}, shape, 7);
  auto whole = test::run(driver, call);
  AttentionResult apart(call);
  AttentionResult in_place(call);
  const std::vector<bdlm_keys> sets = test::key_sets(call, apart);
  for (AttentionResult* result : {&apart, &in_place}) {
    AttentionResult first(call);
    for (size_t s = 0; s < 2; ++s) {
      bdlm_attention_args args = test::forward_args(call, *result, sets);
      args.key_set_count = 1;
      args.key_sets = &sets[s];
      if (s == 0 && result == &apart) {
        args.o = first.o.get();
        args.lse = first.lse.get();
      } else if (s == 1) {
        args.o_state = result == &apart ? first.o.get() : args.o;
        args.lse_state = result == &apart ? first.lse.get() : args.lse;
      }
      driver.expect_ok(driver->attention(driver.context(), &args));
    }
  }
  BOOST_TEST((apart.o.bits() == in_place.o.bits()));
  BOOST_TEST((apart.lse.bits() == in_place.lse.bits()));
  int64_t empty = 0;
  for (int64_t r = 0; r < 75; ++r) {
    const bool none0 = call.intervals[0][2 * r] == call.intervals[0][2 * r + 1];
    const bool none1 = call.intervals[1][2 * r] == call.intervals[1][2 * r + 1];
    if (none0 || none1) {  // no merge: the same bits as in one call
      BOOST_TEST(row(apart.o, r) == row(whole->o, r));
      BOOST_TEST(row(apart.lse, r) == row(whole->lse, r));
    }
    if (none0 && none1) {
      ++empty;
      BOOST_TEST(row(whole->o, r) == std::vector<double>(80, 0.0));
      BOOST_TEST(row(whole->lse, r) == std::vector<double>(4, -infinity));
      BOOST_TEST(row(whole->dq, r) == std::vector<double>(80, 0.0));
    }
  }
  BOOST_TEST(empty > 0);

  std::vector<std::vector<uint32_t>> dq;
  for (const bool same : {false, true}) {
    AttentionResult a(call);
    AttentionResult b(call);
    for (size_t s = 0; s < 2; ++s) {
      bdlm_attention_backward_args args = test::backward_args(call, *whole, sets);
      args.key_set_count = 1;
      args.key_sets = &sets[s];
      args.dq = s == 0 || same ? a.dq.get() : b.dq.get();
      args.dq_state = s == 0 ? nullptr : a.dq.get();
      driver.expect_ok(driver->attention_backward(driver.context(), &args));
    }
    dq.push_back(same ? a.dq.bits() : b.dq.bits());
  }
  BOOST_TEST((dq[0] == dq[1]));
}

// A row whose merged LSE is -inf takes no part in the backward, whatever its O and dO hold.
BOOST_AUTO_TEST_CASE(backward_of_a_row_that_attended_nothing) {
  const test::Driver driver(bdlm_cpu_backend());
  const AttentionShape shape{4, 2, 20};
  AttentionCall call(75, {70}, shape, 8);
  auto result = test::run(driver, call);
  const std::vector<bdlm_keys> sets = test::key_sets(call, *result);
  const int64_t r = 33;
  set_row(result->lse, r, -infinity);
  bdlm_attention_backward_args args = test::backward_args(call, *result, sets);
  driver.expect_ok(driver->attention_backward(driver.context(), &args));
  const auto expected = result->bits();
  BOOST_TEST(row(result->dq, r) == std::vector<double>(80, 0.0));
  for (test::HostTensor* tensor : {&result->o, &call.d_o, &call.q}) {
    set_row(*tensor, r, std::numeric_limits<double>::quiet_NaN());
  }
  driver.expect_ok(driver->attention_backward(driver.context(), &args));
  auto got = result->bits();
  got[0] = expected[0];  // o is what was just overwritten here
  BOOST_TEST((got == expected));
}

BOOST_AUTO_TEST_CASE(no_rows_no_keys_no_sets) {
  const test::Driver driver(bdlm_cpu_backend());
  AttentionCall rows(0, {5}, {2, 1, 8}, 9);
  const auto without_rows = test::run(driver, rows);
  BOOST_TEST(row(*without_rows->dk[0], 3) == std::vector<double>(8, 0.0));
  AttentionCall keys(5, {0}, {2, 1, 8}, 9);
  BOOST_TEST(row(test::run(driver, keys)->lse, 3) == std::vector<double>(2, -infinity));
  AttentionCall sets(5, {}, {2, 1, 8}, 9);
  BOOST_TEST(row(test::run(driver, sets)->dq, 3) == std::vector<double>(16, 0.0));
}

BOOST_AUTO_TEST_CASE(wrong_arguments_are_refused_and_named) {
  const test::Driver driver(bdlm_cpu_backend());
  AttentionCall call(5, {7}, {4, 2, 8}, 10);
  AttentionResult result(call);
  std::vector<bdlm_keys> sets = test::key_sets(call, result);
  const auto refused = [&](const char* part, const auto& edit) {
    bdlm_attention_args args = test::forward_args(call, result, sets);
    edit(args);
    BOOST_TEST(driver->attention(driver.context(), &args) == BDLM_INVALID, part);
    BOOST_TEST(driver.error().find(part) != std::string::npos, part << ": " << driver.error());
    BOOST_TEST(driver.error().find('\n') == std::string::npos);
    BOOST_TEST(std::isnan(result.o.at(0)), part);
  };
  refused("q is missing", [](auto& a) { a.q = nullptr; });
  refused("3 key sets", [](auto& a) { a.key_set_count = 3; });
  refused("scale", [](auto& a) { a.scale = infinity; });
  refused("bytes", [](auto& a) { a.size = 8; });
  refused("state needs both", [&](auto& a) { a.o_state = result.o.get(); });
  test::HostTensor narrow(test::fp32, {5, 4, 7});
  refused("o has shape (5, 4, 7); it must be (5, 4, 8)", [&](auto& a) { a.o = narrow.get(); });
  test::HostTensor half(test::bf16, {5, 4, 8});
  refused("q has dtype code 4, 16 bits; allowed are fp32", [&](auto& a) { a.q = half.get(); });
  bdlm_tensor device = *call.q.get();
  device.device.type = 2;
  refused("device of type 2", [&](auto& a) { a.q = &device; });
  bdlm_tensor strided = *call.q.get();
  int64_t strides[] = {32, 8, 2};
  strided.strides = strides;
  refused("last stride of 2", [&](auto& a) { a.q = &strided; });
  call.intervals[0][3] = 8;
  refused("interval of row 1", [](auto&) {});
  call.intervals[0][3] = call.intervals[0][2];
  call.key_segments[0].count = 6;
  refused("segments of the keys have 6 rows; the tensor has 7", [](auto&) {});
}

}  // namespace

BOOST_AUTO_TEST_SUITE_END()

}  // namespace bdlm
