#include "conformance/golden/golden_vector.h"

#include <charconv>

#include "reference/base/error.h"

namespace bdlm {

GoldenVector make_vector(const GoldenCase& c, Making making) {
  constexpr GoldenVector (*makers[])(const GoldenCase&, Making) = {
      make_attention, make_merge, make_cross_entropy, make_step_vector};
  return makers[c.what.index()](c, making);
}

std::string number_text(double value) {
  char text[64];
  const auto end = std::to_chars(text, text + sizeof text, value).ptr;
  return {text, end};
}

DType file_dtype(Dtype dtype) {
  switch (dtype) {
    case Dtype::bf16:
      return DType::bf16;
    case Dtype::fp16:
      return DType::f16;
    case Dtype::fp32:
      return DType::f32;
    case Dtype::f64:
      return DType::f64;
  }
  throw LogicError(join("dtype ", static_cast<int>(dtype), " does not exist"));
}

}  // namespace bdlm
