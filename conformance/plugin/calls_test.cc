// Calls reach the backend as the header says, their results do not depend on how tensors lie, and
// what goes wrong is told apart.

#include "conformance/plugin/calls.h"

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <limits>

#include "conformance/plugin/test_backend.h"
#include "reference/base/philox.h"

namespace bdlm {
BOOST_AUTO_TEST_SUITE(calls)

namespace {

std::vector<double> random_values(int64_t count, uint32_t tensor) {
  const Philox random(5, tensor);
  std::vector<double> out(count);
  for (int64_t i = 0; i < count; ++i) {
    out[i] = random.gaussian(i);
  }
  return out;
}

/// All rows of both streams of 13 tokens in blocks of 4 on all keys; 4 query heads, 2 KV heads.
AttentionCall small_call(int64_t head_dim) {
  AttentionCall call;
  call.sequence = Sequence::uniform(13, 4, {{0, 6}, {6, 12}});
  call.rule = {CleanRule::token_causal, 5};
  call.shape = {4, 2, head_dim};
  call.scale = 1 / std::sqrt(static_cast<double>(head_dim));
  const IntervalSet all{{0, 13}};
  call.rows = RowSet(all, all);
  call.q = random_values(26 * 4 * head_dim, 0);
  for (const Stream stream : {Stream::clean, Stream::corrupted}) {
    CallKeys keys;
    keys.rows = stream == Stream::clean ? RowSet({}, all) : RowSet(all, {});
    keys.k = random_values(13 * 2 * head_dim, stream == Stream::clean ? 1 : 2);
    keys.v = random_values(13 * 2 * head_dim, stream == Stream::clean ? 3 : 4);
    for (const Segment& segment : call.rows.segments()) {
      for (int64_t row = segment.rows.begin; row < segment.rows.end; ++row) {
        keys.intervals.push_back(visible(call.sequence, call.rule, segment.stream, row, stream));
      }
    }
    call.key_sets.push_back(keys);
  }
  return call;
}

/// The same with one of its key sets alone.
AttentionCall with_set(AttentionCall call, size_t set) {
  call.key_sets = {call.key_sets[set]};
  return call;
}

double distance(const std::vector<double>& a, const std::vector<double>& b) {
  BOOST_REQUIRE_EQUAL(a.size(), b.size());
  double out = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    out = a[i] == b[i] ? out : std::max(out, std::abs(a[i] - b[i]));
  }
  return out;
}

/// fp32 sums of a few dozen values of order 1.
constexpr double near = 1e-5;

const CallOptions variants[] = {
    {{3, 0, 0, false, 2}, false, false, 0},
    {{0, 36, 0, true, 3}, true, true, 50},
    {{8, 252, 256, false, 4}, true, false, 0},
};

AttentionForwardResult faulty_forward(const std::string& fault, bool device, int64_t head_dim) {
  const std::unique_ptr<Backend> backend = faulty_backend(device);
  const Environment chosen("BDLM_FAULT", fault);
  CallOptions options;
  options.tensors.row_padding = 2;
  return call_attention(*backend, small_call(head_dim), nullptr, Stage::final, options);
}

}  // namespace

BOOST_AUTO_TEST_CASE(results_do_not_depend_on_how_tensors_lie) {
  for (const bool device : {false, true}) {
    const std::unique_ptr<Backend> backend = faulty_backend(device);
    const AttentionCall call = small_call(8);
    const auto forward = call_attention(*backend, call, nullptr, Stage::final);
    BOOST_TEST(forward.status.ok());
    BOOST_TEST(forward.violation == "");
    BOOST_TEST(forward.out.o.size() == 26U * 4 * 8);
    BOOST_TEST(forward.out.lse.size() == 26U * 4);
    // The padding row sees nothing.
    BOOST_TEST(forward.out.lse[12 * 4] == -std::numeric_limits<double>::infinity());
    const std::vector<double> d_o = random_values(26 * 4 * 8, 5);
    const std::vector<double> state = random_values(26 * 4 * 8, 6);
    const auto backward =
        call_attention_backward(*backend, call, forward.out, d_o, &state, Stage::partial);
    BOOST_TEST(backward.status.ok());
    BOOST_TEST(backward.violation == "");
    for (const CallOptions& options : variants) {
      const auto again = call_attention(*backend, call, nullptr, Stage::final, options);
      BOOST_TEST(again.violation == "");
      BOOST_TEST((again.out.o == forward.out.o && again.out.lse == forward.out.lse));
      const auto gradients = call_attention_backward(*backend, call, forward.out, d_o, &state,
                                                     Stage::partial, options);
      BOOST_TEST(gradients.violation == "");
      BOOST_TEST(gradients.dq == backward.dq);
      for (size_t s = 0; s < 2; ++s) {
        BOOST_TEST(gradients.gradients[s].dk == backward.gradients[s].dk);
        BOOST_TEST(gradients.gradients[s].dv == backward.gradients[s].dv);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(states_and_merges_add_up_to_one_call) {
  const std::unique_ptr<Backend> backend = faulty_backend();
  const AttentionCall call = small_call(16);
  const auto whole = call_attention(*backend, call, nullptr, Stage::final).out;
  const auto clean = call_attention(*backend, with_set(call, 0), nullptr, Stage::partial).out;
  const auto corrupted = call_attention(*backend, with_set(call, 1), nullptr, Stage::partial).out;
  BOOST_TEST(distance(clean.o, whole.o) > 0.1);
  for (const CallOptions& options : variants) {
    const auto continued =
        call_attention(*backend, with_set(call, 1), &clean, Stage::final, options);
    BOOST_TEST(continued.violation == "");
    BOOST_TEST(distance(continued.out.o, whole.o) < near);
    BOOST_TEST(distance(continued.out.lse, whole.lse) < near);
    const auto merged = call_merge(*backend, 4, 16, clean, corrupted, options);
    BOOST_TEST(merged.violation == "");
    BOOST_TEST(distance(merged.out.o, whole.o) < near);
    BOOST_TEST(distance(merged.out.lse, whole.lse) < near);
  }
  const std::vector<double> d_o = random_values(26 * 4 * 16, 7);
  const auto all = call_attention_backward(*backend, call, whole, d_o, nullptr, Stage::final);
  const auto first =
      call_attention_backward(*backend, with_set(call, 0), whole, d_o, nullptr, Stage::partial);
  const auto second =
      call_attention_backward(*backend, with_set(call, 1), whole, d_o, &first.dq, Stage::final);
  BOOST_TEST(distance(second.dq, all.dq) < near);
  BOOST_TEST(distance(first.dq, all.dq) > 0.1);
  BOOST_TEST(distance(second.gradients[0].dk, all.gradients[1].dk) < near);
}

BOOST_AUTO_TEST_CASE(errors_refusals_and_missing_entries_are_told_apart) {
  for (const bool device : {false, true}) {
    const auto status = [&](const char* fault) { return faulty_forward(fault, device, 8).status; };
    BOOST_TEST(status("none").ok());
    BOOST_TEST((status("error").code == BDLM_FAILED));
    BOOST_TEST(status("error").message == "out of\\nluck");
    BOOST_TEST(name(status("unknown-status").code) == "status 17");
    BOOST_TEST((status("refuse").code == BDLM_UNSUPPORTED));
    BOOST_TEST(status("refuse").message == "no such shape");
    BOOST_TEST(!status("refuse").null_entry);
    BOOST_TEST((status("workspace-error").code == BDLM_OUT_OF_MEMORY));
    BOOST_TEST(status("workspace-error").message == "no workspace");
    BOOST_CHECK_THROW(status("huge-workspace"), Error);
  }
  const CallStatus full = faulty_forward("out-of-memory", true, 8).status;
  BOOST_TEST((full.code == BDLM_OUT_OF_MEMORY));
  BOOST_TEST(full.message == "allocate returned BDLM_OUT_OF_MEMORY: the device is full");

  const std::unique_ptr<Backend> backend = faulty_backend();
  const CallStatus missing = call_cross_entropy(*backend, {}).status;
  BOOST_TEST((missing.code == BDLM_UNSUPPORTED && missing.null_entry));
}

// 26 rows of 4 heads of 7 channels with 2 elements between rows end 32 bytes before a page.
BOOST_AUTO_TEST_CASE(violations_are_named) {
  for (const bool device : {false, true}) {
    const auto violation = [&](const char* fault) {
      return faulty_forward(fault, device, 7).violation;
    };
    BOOST_TEST(violation("none") == "");
    BOOST_TEST(violation("error") == "");
    BOOST_TEST(violation("refuse") == "");
    BOOST_TEST(violation("refuse-and-write") ==
               "output o was written, first at byte 0 of 3112, although the entry returned "
               "BDLM_UNSUPPORTED");
    BOOST_TEST(violation("leave-unwritten") ==
               "output o: 1 of 728 elements were left unwritten, first at (25, 3, 6)");
    BOOST_TEST(violation("write-behind") ==
               "bytes behind output o were written, first at byte 3112 of 3112");
    BOOST_TEST(violation("write-before") ==
               "bytes before output o were written, first at byte -4 of 3112");
    BOOST_TEST(violation("write-padding") ==
               "padding between rows of output o were written, first at byte 112 of 3112");
    BOOST_TEST(violation("write-behind-workspace") ==
               "bytes behind workspace of the call were written, first at byte 100 of 100");
    BOOST_TEST(violation("scale") == "");
  }
  BOOST_TEST(faulty_forward("write-input", true, 7).violation ==
             "input q was written, first at byte 3 of 3112");
}

BOOST_AUTO_TEST_CASE(a_layout_that_the_header_cannot_say_is_an_error) {
  const std::unique_ptr<Backend> backend = faulty_backend();
  AttentionCall call = small_call(8);
  call.sequence = Sequence::uniform(13, 4, {{0, 6}, {7, 12}});
  BOOST_CHECK_EXCEPTION(
      call_attention(*backend, call, nullptr, Stage::final), InputError, [](const Error& error) {
        return error.what() == std::string(
                                   "a document begins at 7; in a plug-in's layout it begins where "
                                   "the one before ends, at 6");
      });
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace bdlm
