#include "reference/model/dense.h"

#include <boost/test/unit_test.hpp>
#include <cmath>
#ifdef _OPENMP
#include <omp.h>
#endif

#include "reference/math/dual.h"
#include "reference/model/model_case_test.h"

namespace bdlm {
BOOST_AUTO_TEST_SUITE(dense_suite)

namespace {

using test::ModelCase;
using Dual1 = Dual<double>;

#ifdef _OPENMP
/// Models of a few rows leave nothing to share among threads, which would only wait for each other.
struct OneThread {
  OneThread() { omp_set_num_threads(1); }
};
BOOST_TEST_GLOBAL_FIXTURE(OneThread);
#endif

// <g, v> = d/de loss(p + e v), the right side by dual numbers:
//   |<g, v> - d| <= 1e-14 * sum |g_i v_i|
BOOST_AUTO_TEST_CASE(gradient_along_random_directions) {
  for (const ModelCase& c : test::model_cases()) {
    const DenseParameters<double> parameters = random_parameters(c.config, 5);
    DenseParameters<double> gradients(c.config);
    const double loss = test::model_loss(c, parameters, &gradients);
    for (uint64_t seed = 0; seed < 8; ++seed) {
      const std::vector<double> v = test::direction(parameters.table().size(), seed);
      DenseParameters<Dual1> moving = parameters.cast<Dual1>();
      double dot = 0;
      double scale = 0;
      for (size_t i = 0; i < v.size(); ++i) {
        moving.values()[i].derivative = v[i];
        dot += gradients.values()[i] * v[i];
        scale += std::abs(gradients.values()[i] * v[i]);
      }
      const Dual1 along = test::model_loss(c, moving);
      BOOST_TEST(std::abs(along.value - loss) <= 1e-14 * loss, c.name);
      BOOST_TEST(std::abs(dot - along.derivative) <= 1e-14 * scale,
                 c.name << ": " << std::abs(dot - along.derivative) / scale);
    }
  }
}

// g_i = d loss / d p_i:  |g_i - d_i| <= 1e-14 * max |g| of the tensor. And no tensor's gradient is
// negligible, else its check would say nothing.
BOOST_AUTO_TEST_CASE(gradient_of_every_coordinate) {
  for (const ModelCase& c : test::model_cases()) {
    const DenseParameters<double> parameters = random_parameters(c.config, 5);
    DenseParameters<double> gradients(c.config);
    test::model_loss(c, parameters, &gradients);
    DenseParameters<Dual1> moving = parameters.cast<Dual1>();
    for (const ParameterEntry& entry : parameters.table().entries()) {
      double largest = 0;
      double worst = 0;
      for (int64_t i = entry.offset; i < entry.offset + entry.size; ++i) {
        moving.values()[i].derivative = 1;
        const double d = test::model_loss(c, moving).derivative;
        moving.values()[i].derivative = 0;
        largest = std::max(largest, std::abs(gradients.values()[i]));
        worst = std::max(worst, std::abs(gradients.values()[i] - d));
      }
      BOOST_TEST(largest > 1e-3, c.name << " " << entry.name << " " << largest);
      BOOST_TEST(worst <= 1e-14 * largest, c.name << " " << entry.name << " " << worst / largest);
    }
  }
}

// Recomputing a layer = keeping it, bit for bit.
BOOST_AUTO_TEST_CASE(checkpointing_changes_no_bit) {
  for (const ModelCase& c : test::model_cases()) {
    const DenseParameters<double> parameters = random_parameters(c.config, 6);
    DenseParameters<double> kept(c.config);
    DenseParameters<double> recomputed(c.config);
    const double loss = test::model_loss(c, parameters, &kept, false);
    BOOST_TEST(test::model_loss(c, parameters, &recomputed, true) == loss);
    BOOST_TEST((recomputed.values() == kept.values()), c.name);
  }
}

// Gradients are added to what is there.
BOOST_AUTO_TEST_CASE(gradients_accumulate) {
  const ModelCase c = test::model_cases()[2];
  const DenseParameters<double> parameters = random_parameters(c.config, 6);
  DenseParameters<double> once(c.config);
  DenseParameters<double> onto(c.config);
  for (double& x : onto.values()) {
    x = 0.5;
  }
  test::model_loss(c, parameters, &once);
  test::model_loss(c, parameters, &onto);
  for (size_t i = 0; i < once.values().size(); ++i) {
    BOOST_TEST(std::abs(onto.values()[i] - once.values()[i] - 0.5) < 1e-12);
  }
}

// A sum over no terms is zero, and so is every gradient, exactly.
BOOST_AUTO_TEST_CASE(no_terms_give_exact_zeros) {
  ModelCase c = test::model_cases()[2];
  c.terms.clear();
  DenseParameters<double> gradients(c.config);
  BOOST_TEST(test::model_loss(c, random_parameters(c.config, 6), &gradients) == 0.0);
  for (const double g : gradients.values()) {
    BOOST_TEST(g == 0.0);
  }
}

}  // namespace

BOOST_AUTO_TEST_SUITE_END()

}  // namespace bdlm
