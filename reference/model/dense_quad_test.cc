#include <boost/test/unit_test.hpp>
#include <cmath>

#include "reference/math/quad.h"
#include "reference/model/model_case_test.h"

namespace bdlm {
BOOST_AUTO_TEST_SUITE(dense_quad_suite)

namespace {

// <g, v> = (loss(p + h v) - loss(p - h v)) / 2h in quadruple precision, whose own error is of order
// h^2 = 1e-20:  |difference| <= 1e-14 * sum |g_i v_i|. Independent of the dual numbers.
BOOST_AUTO_TEST_CASE(gradient_is_a_central_difference) {
  const Quad h = 1e-10;
  for (const test::ModelCase& c : test::model_cases()) {
    const DenseParameters<double> parameters = random_parameters(c.config, 5);
    DenseParameters<double> gradients(c.config);
    test::model_loss(c, parameters, &gradients);
    const std::vector<double> v = test::direction(parameters.table().size(), 40);
    DenseParameters<Quad> ahead = parameters.cast<Quad>();
    DenseParameters<Quad> behind = ahead;
    double dot = 0;
    double scale = 0;
    for (size_t i = 0; i < v.size(); ++i) {
      ahead.values()[i] += h * v[i];
      behind.values()[i] -= h * v[i];
      dot += gradients.values()[i] * v[i];
      scale += std::abs(gradients.values()[i] * v[i]);
    }
    const Quad slope = (test::model_loss(c, ahead) - test::model_loss(c, behind)) / (2 * h);
    const double error = std::abs(static_cast<double>(slope) - dot);
    BOOST_TEST(error <= 1e-14 * scale, c.name << ": " << error / scale);
  }
}

}  // namespace

BOOST_AUTO_TEST_SUITE_END()

}  // namespace bdlm
