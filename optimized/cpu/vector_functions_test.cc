// exp and tanh of eight floats, matrix products, bf16.

#include <array>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <limits>
#include <vector>

#include "optimized/cpu/aligned.h"
#include "optimized/cpu/matrix_product.h"
#include "optimized/cpu/tensor_view.h"
#include "optimized/cpu/vector_tanh.h"
#include "reference/base/philox.h"
#include "reference/base/small_float.h"

namespace bdlm::cpu {
BOOST_AUTO_TEST_SUITE(vector_functions)

namespace {

float exp_of(float x) {
  return _mm256_cvtss_f32(vector_exp(_mm256_set1_ps(x)));
}

/// |got - expected| in units of the last place of the expected float.
double ulps(float got, double expected) {
  const auto rounded = static_cast<float>(std::abs(expected));
  const double unit = static_cast<double>(std::nextafter(rounded, infinity)) - rounded;
  return std::abs(got - expected) / unit;
}

BOOST_AUTO_TEST_CASE(exp_is_within_one_ulp) {
  const Philox random(3);
  double worst = 0;
  for (int64_t i = 0; i < 200000; ++i) {
    const auto x = static_cast<float>(-103 + 191.5 * random.uniform(i));
    worst = std::max(worst, ulps(exp_of(x), std::exp(static_cast<double>(x))));
    const auto small = static_cast<float>(random.gaussian(i) * 0.1);
    worst = std::max(worst, ulps(exp_of(small), std::exp(static_cast<double>(small))));
  }
  BOOST_TEST(worst <= 1.0);
  BOOST_TEST_MESSAGE("exp: " << worst << " ulp");
}

BOOST_AUTO_TEST_CASE(exp_at_the_ends) {
  BOOST_TEST(exp_of(0) == 1);
  BOOST_TEST(exp_of(-0.0F) == 1);
  BOOST_TEST(exp_of(-infinity) == 0);
  BOOST_TEST(exp_of(-1e30F) == 0);
  BOOST_TEST(exp_of(-104) == 0);
  BOOST_TEST(exp_of(-103) > 0);
  BOOST_TEST(exp_of(88.7F) < infinity);
  BOOST_TEST(exp_of(89) == infinity);
  BOOST_TEST(exp_of(infinity) == infinity);
  BOOST_TEST(std::isnan(exp_of(std::numeric_limits<float>::quiet_NaN())));
}

// The quotient of (1 - e) and (1 + e) has the errors of e, both sums and the division: with e below
// 0.61 no more than three units.
BOOST_AUTO_TEST_CASE(tanh_and_its_slope) {
  const Philox random(4);
  double worst = 0;
  double worst_slope = 0;
  for (int64_t i = 0; i < 200000; ++i) {
    const auto x = static_cast<float>(random.gaussian(i) * (i % 2 == 0 ? 3 : 0.2));
    const TanhAndSlope t = vector_tanh(_mm256_set1_ps(x));
    const double y = std::tanh(static_cast<double>(x));
    const double cosine = std::cosh(static_cast<double>(x));
    worst = std::max(worst, ulps(std::abs(_mm256_cvtss_f32(t.value)), std::abs(y)));
    worst_slope = std::max(worst_slope, ulps(_mm256_cvtss_f32(t.slope), 1 / (cosine * cosine)));
    BOOST_TEST(std::signbit(_mm256_cvtss_f32(t.value)) == std::signbit(x));
  }
  BOOST_TEST(worst <= 3.0);
  BOOST_TEST(worst_slope <= 4.0);
  BOOST_TEST_MESSAGE("tanh: " << worst << " ulp, slope " << worst_slope);
  for (const float x : {infinity, 100.0F}) {
    const TanhAndSlope t = vector_tanh(_mm256_set1_ps(-x));
    BOOST_TEST(_mm256_cvtss_f32(t.value) == -1);
    BOOST_TEST(_mm256_cvtss_f32(t.slope) == 0);
  }
}

// Small integers: exact, whatever the order. All four layouts of the operands.
BOOST_AUTO_TEST_CASE(matrix_products_are_exact_on_integers) {
  const auto integer = [](uint32_t tensor, int64_t i) {
    return static_cast<float>(Philox(5, tensor).below(i, 15) - 7);
  };
  for (const auto& [n, m, k] : std::vector<std::array<int64_t, 3>>{
           {1, 1, 1}, {97, 65, 64}, {5, 130, 200}, {192, 16, 65}, {7, 3, 0}}) {
    std::vector<float> a(n * k);
    std::vector<float> b(k * m);
    for (size_t i = 0; i < a.size(); ++i) {
      a[i] = integer(0, static_cast<int64_t>(i));
    }
    for (size_t i = 0; i < b.size(); ++i) {
      b[i] = integer(1, static_cast<int64_t>(i));
    }
    for (int layout = 0; layout < 4; ++layout) {
      const Strided at = layout % 2 == 0 ? Strided{a.data(), k, 1} : Strided{a.data(), 1, n};
      const Strided bt = layout / 2 == 0 ? Strided{b.data(), m, 1} : Strided{b.data(), 1, k};
      std::vector<float> c(n * m, 3);
      std::vector<float> expected(n * m, 0);
      for (int64_t i = 0; i < n; ++i) {
        for (int64_t j = 0; j < m; ++j) {
          for (int64_t x = 0; x < k; ++x) {
            expected[i * m + j] +=
                at.data[i * at.row + x * at.column] * bt.data[x * bt.row + j * bt.column];
          }
        }
      }
      matrix_product(n, m, k, at, bt, c.data(), false);
      BOOST_TEST(c == expected);
      matrix_product(n, m, k, at, bt, c.data(), true);
      for (float& x : expected) {
        x *= 2;
      }
      BOOST_TEST(c == expected);
    }
  }
}

BOOST_AUTO_TEST_CASE(bf16_rounds_as_the_reference_does) {
  std::vector<float> values{0.0F,   -0.0F,       infinity,    -infinity, 3.4e38F,
                            1e-45F, 1.00390625F, 1.01171875F, -65280.5F};
  const Philox random(6);
  for (int64_t i = 0; i < 10000; ++i) {
    values.push_back(
        static_cast<float>(random.gaussian(i) * std::exp2(random.below(i, 200) - 100)));
  }
  std::vector<uint16_t> halves(values.size());
  std::vector<float> back(values.size());
  narrow(static_cast<int64_t>(values.size()), values.data(), halves.data());
  widen(static_cast<int64_t>(values.size()), halves.data(), back.data());
  for (size_t i = 0; i < values.size(); ++i) {
    BOOST_TEST(halves[i] == round_to_bf16(values[i]), values[i]);
    BOOST_TEST(back[i] == static_cast<float>(bf16_value(halves[i])));
  }
  const float nan = -std::numeric_limits<float>::quiet_NaN();
  narrow(1, &nan, halves.data());
  widen(1, halves.data(), back.data());
  BOOST_TEST(std::isnan(back[0]));
}

}  // namespace

BOOST_AUTO_TEST_SUITE_END()

}  // namespace bdlm::cpu
