#include "bench/output_distance.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

#include "reference/base/error.h"

namespace bdlm {
namespace {

/// Parts of a tensor that are summed beside each other, then together in their order.
constexpr int64_t part_count = 64;

}  // namespace

void DistanceSums::add(double got, double want, double bound, double deviation) {
  const double error = std::abs(got - want);
  const double z = error == 0 ? 0 : error / deviation;
  apart += error * error;
  size += want * want;
  squares += z * z;
  most_h = std::max(most_h, error == 0 ? 0 : error / bound);
  most_z = std::max(most_z, z);
  finite = finite && std::isfinite(error);
  ++elements;
}

DistanceSums& DistanceSums::operator+=(const DistanceSums& other) {
  apart += other.apart;
  size += other.size;
  squares += other.squares;
  most_h = std::max(most_h, other.most_h);
  most_z = std::max(most_z, other.most_z);
  elements += other.elements;
  finite = finite && other.finite;
  return *this;
}

Distance DistanceSums::distance() const {
  if (!finite) {
    const double nan = std::numeric_limits<double>::quiet_NaN();
    return {nan, nan, nan, nan, elements};
  }
  return {std::sqrt(apart / size), most_h, most_z,
          std::sqrt(squares / static_cast<double>(elements)), elements};
}

ClassSums& operator+=(ClassSums& sums, const ClassSums& more) {
  for (int c = 0; c < row_class_count; ++c) {
    sums[c] += more[c];
  }
  return sums;
}

ClassSums class_sums(const std::vector<double>& got, const NamedOutput& want,
                     const std::vector<RowClass>& rows) {
  const size_t count = got.size();
  require(want.values.size() == count && want.bound.size() == count &&
              want.deviation.size() == count && !rows.empty() && count % rows.size() == 0,
          want.name, ": ", count, " values do not fit ", want.values.size(), " others in ",
          rows.size(), " rows");
  const auto row_count = static_cast<int64_t>(rows.size());
  const auto width = static_cast<int64_t>(count) / row_count;
  std::vector<ClassSums> parts(part_count);
#pragma omp parallel for schedule(static)
  for (int64_t part = 0; part < part_count; ++part) {
    ClassSums sums{};
    for (int64_t row = row_count * part / part_count; row < row_count * (part + 1) / part_count;
         ++row) {
      DistanceSums& of_row = sums[static_cast<size_t>(rows[row])];
      for (int64_t i = row * width; i < (row + 1) * width; ++i) {
        of_row.add(got[i], want.values[i], want.bound[i], want.deviation[i]);
      }
    }
    parts[part] = sums;
  }
  ClassSums sums{};
  for (const ClassSums& part : parts) {
    sums += part;
  }
  return sums;
}

DistanceSums total(const ClassSums& sums) {
  DistanceSums all;
  for (const DistanceSums& of_class : sums) {
    all += of_class;
  }
  return all;
}

std::string class_table(const std::map<std::string, ClassSums>& tensors) {
  std::string table;
  const auto line = [&](const std::string& first, const auto& cell) {
    std::string text = first;
    size_t column = 19;
    for (int c = 0; c < row_class_count; ++c, column += 17) {
      text.resize(std::max(text.size() + 1, column), ' ');
      text += cell(c);
    }
    table += text + "\n";
  };
  line("RMS z (max err/H)", [](int c) { return std::string(name(static_cast<RowClass>(c))); });
  for (const auto& [tensor, sums] : tensors) {
    line(tensor, [&sums = sums](int c) -> std::string {
      if (sums[c].elements == 0) {
        return "-";
      }
      const Distance d = sums[c].distance();
      char text[64];
      std::snprintf(text, sizeof(text), "%.4f (%.4f)", d.rms_z, d.err_over_h);
      return text;
    });
  }
  return table;
}

}  // namespace bdlm
