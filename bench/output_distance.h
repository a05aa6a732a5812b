#pragma once
// How far a backend's outputs are from an oracle's: of a whole tensor, and by class of rows.

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "bench/row_class.h"

namespace bdlm {

/// One output, contiguous; with bounds where an oracle gave them.
struct NamedOutput {
  std::string name;  ///< O, LSE, dQ, dK or dV
  std::vector<double> values;
  std::vector<double> bound, deviation;
};

/// ||x - y|| / ||y||, the largest error in bounds and in deviations, and the root mean square of
/// the latter. All are NaN where an error is no finite number.
struct Distance {
  double relative = 0, err_over_h = 0, max_z = 0, rms_z = 0;
  int64_t elements = 0;
};

/// What distances are made of; that of two parts together is the sum of both.
struct DistanceSums {
  double apart = 0, size = 0, squares = 0, most_h = 0, most_z = 0;
  int64_t elements = 0;
  bool finite = true;

  void add(double got, double want, double bound, double deviation);
  DistanceSums& operator+=(const DistanceSums& other);
  Distance distance() const;
};

/// By class of rows.
using ClassSums = std::array<DistanceSums, row_class_count>;
ClassSums& operator+=(ClassSums& sums, const ClassSums& more);

/// Of a tensor (rows, ...) with as many elements in each row. Does not depend on the number of
/// threads.
ClassSums class_sums(const std::vector<double>& got, const NamedOutput& want,
                     const std::vector<RowClass>& rows);

DistanceSums total(const ClassSums& sums);

/// A row for each tensor, "RMS z (max err/H)" for each class, '-' for one without rows.
std::string class_table(const std::map<std::string, ClassSums>& tensors);

}  // namespace bdlm
