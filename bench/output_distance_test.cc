#include "bench/output_distance.h"

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <limits>

namespace bdlm {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

/// `rows` rows of 2 elements: values 1, bounds 4, deviations 2.
NamedOutput output_of(size_t rows) {
  return {"O", std::vector<double>(2 * rows, 1.0), std::vector<double>(2 * rows, 4.0),
          std::vector<double>(2 * rows, 2.0)};
}

Distance of(const ClassSums& sums, RowClass c) {
  return sums[static_cast<size_t>(c)].distance();
}

const std::vector<RowClass> three_rows = {RowClass::block_0, RowClass::others, RowClass::block_0};

BOOST_AUTO_TEST_CASE(errors_count_to_the_class_of_their_row_alone) {
  const auto sums = class_sums({1, 1, 1, 4, 0, 1}, output_of(3), three_rows);
  const Distance block = of(sums, RowClass::block_0);
  BOOST_TEST(block.elements == 4);
  BOOST_TEST(block.rms_z == std::sqrt(0.25 / 4));
  BOOST_TEST(block.max_z == 0.5);
  BOOST_TEST(block.err_over_h == 0.25);
  BOOST_TEST(block.relative == 0.5);
  const Distance others = of(sums, RowClass::others);
  BOOST_TEST(others.elements == 2);
  BOOST_TEST(others.rms_z == std::sqrt(2.25 / 2));
  BOOST_TEST(others.err_over_h == 0.75);
  BOOST_TEST(of(sums, RowClass::tile_edges).elements == 0);
}

BOOST_AUTO_TEST_CASE(the_classes_together_are_the_tensor) {
  const Distance all = total(class_sums({1, 1, 1, 4, 0, 1}, output_of(3), three_rows)).distance();
  BOOST_TEST(all.elements == 6);
  BOOST_TEST(all.rms_z == std::sqrt(2.5 / 6));
  BOOST_TEST(all.max_z == 1.5);
  BOOST_TEST(all.err_over_h == 0.75);
  BOOST_TEST(all.relative == std::sqrt(10.0 / 6));
}

BOOST_AUTO_TEST_CASE(a_number_that_is_not_finite_makes_its_class_and_the_whole_nan) {
  for (const double wrong : {nan, HUGE_VAL, -HUGE_VAL}) {
    const auto sums = class_sums({1, 1, 1, wrong, 0, 1}, output_of(3), three_rows);
    BOOST_TEST(std::isnan(of(sums, RowClass::others).rms_z));
    BOOST_TEST(std::isnan(of(sums, RowClass::others).err_over_h));
    BOOST_TEST(of(sums, RowClass::block_0).rms_z == 0.25);
    BOOST_TEST(std::isnan(total(sums).distance().err_over_h));
  }
  NamedOutput oracle = output_of(3);
  oracle.values[2] = nan;
  const auto sums = class_sums({1, 1, 1, 1, 1, 1}, oracle, three_rows);
  BOOST_TEST(std::isnan(total(sums).distance().err_over_h));
}

BOOST_AUTO_TEST_CASE(an_error_where_none_is_allowed_is_infinite_and_no_error_is_none) {
  NamedOutput zero = output_of(3);
  zero.bound.assign(6, 0.0);
  zero.deviation.assign(6, 0.0);
  BOOST_TEST(total(class_sums({1, 1, 1, 1, 1, 1}, zero, three_rows)).distance().err_over_h == 0);
  BOOST_TEST(total(class_sums({1, 1, 1, 1, 1, 2}, zero, three_rows)).distance().err_over_h ==
             HUGE_VAL);
}

BOOST_AUTO_TEST_CASE(many_rows_are_all_counted_once) {
  constexpr size_t rows = 1001;
  std::vector<RowClass> classes(rows);
  std::vector<double> got(2 * rows, 1.0);
  for (size_t r = 0; r < rows; ++r) {
    classes[r] = static_cast<RowClass>(r % row_class_count);
    got[2 * r] += static_cast<double>(r % row_class_count);
  }
  const auto sums = class_sums(got, output_of(rows), classes);
  for (int c = 0; c < row_class_count; ++c) {
    BOOST_TEST(sums[c].elements == (c == 0 ? 402 : 400));
    BOOST_TEST(sums[c].apart == 200.0 * c * c);
    BOOST_TEST(sums[c].most_h == c / 4.0);
  }
}

BOOST_AUTO_TEST_CASE(rows_that_do_not_divide_the_tensor_are_refused) {
  BOOST_CHECK_THROW(class_sums({1, 1, 1, 1}, output_of(2), three_rows), std::exception);
  BOOST_CHECK_THROW(class_sums({1, 1}, output_of(2), {RowClass::others}), std::exception);
}

BOOST_AUTO_TEST_CASE(the_table_has_a_line_a_tensor_and_a_dash_where_there_are_no_rows) {
  const std::map<std::string, ClassSums> tensors = {
      {"O", class_sums({1, 1, 1, 4, 0, 1}, output_of(3), three_rows)}};
  BOOST_TEST(
      class_table(tensors) ==
      "RMS z (max err/H)  block_0          block_edges      tile_edges       window_edges     "
      "others\n"
      "O                  0.2500 (0.2500)  -                -                -                "
      "1.0607 (0.7500)\n");
}

}  // namespace
}  // namespace bdlm
