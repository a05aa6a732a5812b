#include "optimized/cpu/linear.h"

#include "optimized/cpu/matrix_product.h"

namespace bdlm::cpu {

void linear_forward(int64_t rows, int64_t in, int64_t out, const float* x, const float* w,
                    float* y) {
  matrix_product(rows, out, in, {x, in, 1}, {w, 1, in}, y, false);
}

void linear_backward(int64_t rows, int64_t in, int64_t out, const float* x, const float* w,
                     const float* dy, float* dx, float* dw) {
  matrix_product(rows, in, out, {dy, out, 1}, {w, in, 1}, dx, true);
  matrix_product(out, in, rows, {dy, 1, out}, {x, in, 1}, dw, true);
}

}  // namespace bdlm::cpu
