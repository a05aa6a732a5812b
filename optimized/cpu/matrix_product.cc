#include "optimized/cpu/matrix_product.h"

#include <algorithm>
#include <vector>

#include "optimized/cpu/aligned.h"
#include "reference/base/parallel_for.h"

namespace bdlm::cpu {
namespace {

constexpr int64_t block_rows = 96;
constexpr int64_t block_panels = 4;
constexpr int64_t block_columns = block_panels * panel_width;
constexpr int64_t chain = 64;

/// One thread's arrays.
struct Block {
  Floats b;    // [panel][term][column], `chain` terms
  Floats sum;  // [panel][row][column]
};

/// Rows [first, first + terms) of columns [column, column + columns) of b; 0 beyond.
void pack(const Strided& b, int64_t first, int64_t terms, int64_t column, int64_t columns,
          float* to) {
  for (int64_t p = 0; p < block_panels; ++p) {
    float* panel = to + p * chain * panel_width;
    const int64_t begin = p * panel_width;
    const int64_t count = std::clamp<int64_t>(columns - begin, 0, panel_width);
    if (b.column == 1) {
      for (int64_t j = 0; j < terms; ++j) {
        const float* from = b.data + (first + j) * b.row + column + begin;
        std::copy_n(from, count, panel + j * panel_width);
        std::fill_n(panel + j * panel_width + count, panel_width - count, 0.0F);
      }
    } else {
      for (int64_t i = 0; i < panel_width; ++i) {
        const float* from = b.data + first * b.row + (column + begin + i) * b.column;
        for (int64_t j = 0; j < terms; ++j) {
          panel[j * panel_width + i] = i < count ? from[j * b.row] : 0.0F;
        }
      }
    }
  }
}

}  // namespace

void matrix_product(int64_t n, int64_t m, int64_t k, Strided a, Strided b, float* c, bool add) {
  const int64_t row_blocks = (n + block_rows - 1) / block_rows;
  const int64_t column_blocks = (m + block_columns - 1) / block_columns;
  std::vector<Block> threads(max_threads());
  parallel_for(row_blocks * column_blocks, [&](int64_t unit, int thread) {
    const int64_t row = unit % row_blocks * block_rows;
    const int64_t column = unit / row_blocks * block_columns;
    const int64_t rows = std::min(block_rows, n - row);
    const int64_t columns = std::min(block_columns, m - column);
    Block& work = threads[thread];
    work.b.resize(block_columns * chain);
    work.sum.assign(block_columns * block_rows, 0.0F);
    for (int64_t first = 0; first < k; first += chain) {
      const int64_t terms = std::min(chain, k - first);
      pack(b, first, terms, column, columns, work.b.data());
      for (int64_t p = 0; p * panel_width < columns; ++p) {
        panel_product(rows, terms, {a.data + row * a.row + first * a.column, a.row, a.column},
                      work.b.data() + p * chain * panel_width, panel_width,
                      work.sum.data() + p * block_rows * panel_width, panel_width, true);
      }
    }
    for (int64_t i = 0; i < rows; ++i) {
      float* to = c + (row + i) * m + column;
      for (int64_t j = 0; j < columns; ++j) {
        const float x =
            work.sum[(j / panel_width * block_rows + i) * panel_width + j % panel_width];
        to[j] = add ? to[j] + x : x;
      }
    }
  });
}

}  // namespace bdlm::cpu
