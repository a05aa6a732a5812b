#include "conformance/judge/judge_tensor.h"

#include <boost/test/unit_test.hpp>

#include "reference/base/error.h"
#include "reference/base/philox.h"

namespace bdlm {
BOOST_AUTO_TEST_SUITE(judge_tensors)

namespace {

constexpr AttentionShape shape{4, 2, 8};

/// An O of 64 positions with known sigma = |x| / 500 + 1e-3 and H = 6 sigma; the last 4 positions
/// of both streams see nothing. `factor` deviations of Gaussian noise make the answer.
struct Synthetic {
  Decomposition decomposition = whole(Sequence::uniform(64, 8, {{0, 60}}), LayerRule{});
  ExpectedTensor expected;
  ByStream<double> got;

  explicit Synthetic(double factor = 0.7, double bound = 6) {
    expected.unit = 0x1p-8;
    expected.accumulate_unit = 0x1p-24;
    const int64_t width = shape.q_heads * shape.head_dim;
    for (int s = 0; s < 2; ++s) {
      const Philox values(5, 0, s);
      const Philox noise(5, 1, s);
      for (int64_t i = 0; i < 64 * width; ++i) {
        const bool seen = i / width < 60;
        const double x = seen ? values.gaussian(i) : 0;
        const double sigma = seen ? std::abs(x) / 500 + 1e-3 : 0;
        expected.value[s].push_back(x);
        expected.deviation[s].push_back(sigma);
        expected.bound[s].push_back(bound * sigma);
        // gaussian() has deviation 2 / sqrt(3).
        got[s].push_back(x + sigma * factor * noise.gaussian(i) * std::sqrt(0.75));
      }
    }
  }
  TensorResult judge(bool gaussian = true) const {
    return judge_tensor(OutputKind::o, shape, decomposition, expected, got, gaussian);
  }
  /// got = x + z sigma
  void set(int s, int64_t i, double z) {
    got[s][i] = expected.value[s][i] + z * expected.deviation[s][i];
  }
};

/// Element of position 43, head 1, channel 7.
constexpr int64_t element = (43 * shape.q_heads + 1) * shape.head_dim + 7;

bool is(const TensorResult& result, Verdict verdict, Reason reason) {
  BOOST_TEST_MESSAGE(name(result.verdict) << ' ' << name(result.reason) << ' ' << result.detail);
  return result.verdict == verdict && result.reason == reason;
}

double figure(const TensorResult& result, const char* key) {
  return std::get<double>(*find_figure(result.figures, key));
}

BOOST_AUTO_TEST_CASE(right_answer) {
  const TensorResult result = Synthetic().judge();
  BOOST_TEST(is(result, Verdict::pass, Reason::none));
  BOOST_TEST(std::abs(figure(result, "rms_z") - 0.7) < 0.03);
  BOOST_TEST(figure(result, "err_over_h") == figure(result, "max_z") / 6,
             boost::test_tools::tolerance(1e-12));
  BOOST_TEST(std::abs(figure(result, "gain_minus_1")) < 1e-4);
}

BOOST_AUTO_TEST_CASE(not_finite) {
  const double inf = std::numeric_limits<double>::infinity();
  for (const double bad : {inf, -inf, std::nan("")}) {
    Synthetic x;
    x.got[1][element] = bad;
    BOOST_TEST(is(x.judge(), Verdict::fail, Reason::nonfinite));
    x.expected.value[1][element] = -inf;
    BOOST_TEST((x.judge().verdict == Verdict::pass) == (bad == -inf));
  }
  // A finite number where -inf should be.
  Synthetic x;
  x.expected.value[0][element] = -inf;
  BOOST_TEST(is(x.judge(), Verdict::fail, Reason::nonfinite));
}

BOOST_AUTO_TEST_CASE(exactly_zero_where_nothing_is_attended) {
  Synthetic x;
  x.got[0].back() = -0.0;
  BOOST_TEST(is(x.judge(), Verdict::pass, Reason::none));
  x.got[0].back() = 1e-300;
  BOOST_TEST(is(x.judge(), Verdict::fail, Reason::coverage));
}

BOOST_AUTO_TEST_CASE(bound_and_the_place_of_the_worst) {
  Synthetic x;
  x.set(1, element, 6.01);
  const TensorResult result = x.judge();
  BOOST_TEST(is(result, Verdict::fail, Reason::bound));
  BOOST_TEST(result.detail.find("at rank 0, corrupted stream, block 5, token 43, head 1, "
                                "channel 7: ") != std::string::npos);
  x.set(1, element, 5.99);
  BOOST_TEST(is(x.judge(), Verdict::pass, Reason::none));
}

// Pass to 6.5, MARGINAL to 8, FAIL above; only where the contract rounds.
BOOST_AUTO_TEST_CASE(outlier) {
  for (const auto& [z, verdict] : {std::pair{6.4, Verdict::pass},
                                   {6.6, Verdict::marginal},
                                   {7.9, Verdict::marginal},
                                   {8.1, Verdict::fail}}) {
    Synthetic x(0.7, 20);
    x.set(0, element, z);
    BOOST_TEST(is(x.judge(), verdict, z < 6.5 ? Reason::none : Reason::outlier));
    x.expected.unit = 0x1p-24;
    BOOST_TEST(is(x.judge(), Verdict::pass, Reason::none));
  }
}

// 3840 elements: pass to 1.08 + 4 / sqrt(3840) = 1.145, MARGINAL to 1.5; Gaussian data alone.
BOOST_AUTO_TEST_CASE(noise) {
  for (const auto& [factor, verdict] : {std::pair{1.05, Verdict::pass},
                                        {1.2, Verdict::marginal},
                                        {1.4, Verdict::marginal},
                                        {1.6, Verdict::fail}}) {
    const Synthetic x(factor, 20);
    const bool pass = verdict == Verdict::pass;
    BOOST_TEST(is(x.judge(), verdict, pass ? Reason::none : Reason::noise));
    BOOST_TEST(is(x.judge(false), Verdict::pass, Reason::none));
  }
}

// |gain - 1| <= u / 8 = 4.9e-4 here
BOOST_AUTO_TEST_CASE(scale) {
  for (const auto& [gain, verdict] : {std::pair{1.0003, Verdict::pass},
                                      {1.0007, Verdict::fail},
                                      {0.9993, Verdict::fail},
                                      {1.01, Verdict::fail},
                                      {2.0, Verdict::fail}}) {
    Synthetic x(0.7, 20);
    for (auto& stream : x.got) {
      for (double& y : stream) {
        y *= gain;
      }
    }
    const bool pass = verdict == Verdict::pass;
    BOOST_TEST(is(x.judge(), verdict, pass ? Reason::none : Reason::scale));
    if (gain == 1.01) {
      BOOST_TEST(x.judge().detail.find("the right result times 1 + 0.0") == 0);
    }
  }
}

// A factor of 1.0015 on four rows of 512 channels with sigma = |x| / 500: impossible where every
// element errs alone, likely where the channels of a row err together.
BOOST_AUTO_TEST_CASE(gain_of_few_wide_rows) {
  ExpectedTensor expected;
  expected.unit = 0x1p-8;
  expected.accumulate_unit = 0x1p-24;
  const Philox values(6, 0);
  for (int64_t i = 0; i < int64_t{4} * 512; ++i) {
    const double x = values.gaussian(i);
    expected.value[0].push_back(x);
    expected.deviation[0].push_back(std::abs(x) / 500);
    expected.bound[0].push_back(std::abs(x) / 50);
  }
  const auto judge = [&](int64_t channels, double gain) {
    expected.channels = channels;
    ByStream<double> got = expected.value;
    for (double& x : got[0]) {
      x *= gain;
    }
    return judge_values("dQ", JudgedBy::every_limit, expected, got, true,
                        [](const Place& at) { return join(at.element); });
  };
  BOOST_TEST(is(judge(1, 1.0015), Verdict::fail, Reason::scale));
  BOOST_TEST(is(judge(512, 1.0015), Verdict::pass, Reason::none));
  BOOST_TEST(is(judge(512, 1.004), Verdict::fail, Reason::scale));
}

// sigma so large that zeros, or 1 % more, are within it.
BOOST_AUTO_TEST_CASE(vacuous) {
  for (const auto& [factor, words] :
       {std::pair{50.0, "1.01 times"}, std::pair{3000.0, "zeros would pass"}}) {
    Synthetic x;
    for (int s = 0; s < 2; ++s) {
      for (size_t i = 0; i < x.got[s].size(); ++i) {
        x.got[s][i] = x.expected.value[s][i];
        x.expected.deviation[s][i] *= factor;
        x.expected.bound[s][i] *= factor;
      }
    }
    const TensorResult result = x.judge();
    BOOST_TEST(is(result, Verdict::mistrusted, Reason::none));
    BOOST_TEST(result.detail.find(words) != std::string::npos);
  }
}

BOOST_AUTO_TEST_CASE(arrays_of_the_wrong_size) {
  Synthetic x;
  x.got[0].pop_back();
  BOOST_CHECK_THROW(x.judge(), InputError);
}

}  // namespace

BOOST_AUTO_TEST_SUITE_END()

}  // namespace bdlm
