#pragma once
// Linear layers, y = x W^T, on the tile kernels of attention.
//
// A row of y and of dx is computed alike whatever the other rows are, so that ranks holding
// different rows of one batch agree bit for bit. Bits do not depend on the number of threads.

#include <algorithm>
#include <cstdint>
#include <vector>

#include "reference/base/parallel_for.h"
#include "reference/math/panel.h"

namespace bdlm {

/// One thread's operands.
template <class T>
struct LinearWorkspace {
  AlignedVector<T> panels;  // [panel][channel][lane]
  AlignedVector<T> matrix;  // (channels, row_stride)
  AlignedVector<T> sums;    // [panel][channel][lane]
  std::vector<OuterOperand<T>> operands;
};

/// Tile sizes: rows and outputs of a unit of work, and terms of the inner sum taken at once.
template <class T>
struct LinearTiles {
  static constexpr int64_t lanes = Tile<T>::lanes;
  static constexpr int64_t rows = 16 * lanes;
  static constexpr int64_t outputs = 8 * lanes;
  static constexpr int64_t depth = 256;
};

/// c (+)= a M or a M^T for one tile. c (rows, n) is the tile at `c`, row stride ldc. a (rows,
/// depth), row stride lda. M(j, k), j < n, k < depth, is matrix[j * ldm + k] if `transposed`, else
/// matrix[k * ldm + j].
template <class T>
void linear_tile(LinearWorkspace<T>& work, int64_t rows, int64_t n, int64_t depth, const T* a,
                 int64_t lda, const T* matrix, int64_t ldm, bool transposed, bool add, T* c,
                 int64_t ldc) {
  using Tiles = LinearTiles<T>;
  constexpr int64_t lanes = Tiles::lanes;
  const int64_t panels = (rows + lanes - 1) / lanes;
  const int64_t padded_n = padded_channels<T>(n);
  work.sums.resize(panels * padded_n * lanes);
  for (int64_t k0 = 0; k0 < depth; k0 += Tiles::depth) {
    const int64_t count = std::min(Tiles::depth, depth - k0);
    const int64_t panel_size = padded_channels<T>(count) * lanes;
    work.panels.resize(panels * panel_size);
    for (int64_t p = 0; p < panels; ++p) {
      load_panel(
          std::min(lanes, rows - p * lanes), count,
          [&](int64_t lane) { return a + (p * lanes + lane) * lda + k0; },
          work.panels.data() + p * panel_size);
    }
    const int64_t stride = row_stride<T>(transposed ? count : n);
    work.matrix.resize((transposed ? padded_n : count) * stride);
    if (transposed) {
      load_matrix(n, count, matrix + k0, ldm, padded_n, stride, work.matrix.data());
    } else {
      load_matrix(count, n, matrix + k0 * ldm, ldm, count, stride, work.matrix.data());
    }
    for (int64_t p = 0; p < panels; ++p) {
      Tile<T>::panel_product(padded_n, count, work.matrix.data(), transposed ? stride : 1,
                             transposed ? 1 : stride, work.panels.data() + p * panel_size,
                             work.sums.data() + p * padded_n * lanes, k0 > 0);
    }
  }
  for (int64_t r = 0; r < rows; ++r) {
    const T* from = work.sums.data() + r / lanes * padded_n * lanes + r % lanes;
    for (int64_t j = 0; j < n; ++j) {
      const T sum = depth > 0 ? from[j * lanes] : T(0);
      c[r * ldc + j] = add ? T(c[r * ldc + j] + sum) : sum;
    }
  }
}

/// c (rows, n) (+)= a (rows, depth) times M as in linear_tile.
template <class T>
void linear_product(int64_t rows, int64_t n, int64_t depth, const T* a, const T* matrix,
                    bool transposed, bool add, T* c) {
  using Tiles = LinearTiles<T>;
  const int64_t row_tiles = (rows + Tiles::rows - 1) / Tiles::rows;
  const int64_t output_tiles = (n + Tiles::outputs - 1) / Tiles::outputs;
  const int64_t ldm = transposed ? depth : n;
  std::vector<LinearWorkspace<T>> threads(max_threads());
  parallel_for(row_tiles * output_tiles, [&](int64_t unit, int thread) {
    const int64_t r = unit / output_tiles * Tiles::rows;
    const int64_t j = unit % output_tiles * Tiles::outputs;
    linear_tile(threads[thread], std::min(Tiles::rows, rows - r), std::min(Tiles::outputs, n - j),
                depth, a + r * depth, depth, matrix + (transposed ? j * ldm : j), ldm, transposed,
                add, c + r * n + j, n);
  });
}

/// y (rows, out) = x (rows, in) W^T, with W (out, in).
template <class T>
void linear_forward(int64_t rows, int64_t in, int64_t out, const T* x, const T* w, T* y) {
  linear_product(rows, out, in, x, w, true, false, y);
}

/// dx (rows, in) += dy (rows, out) W. Part of linear_backward.
template <class T>
void linear_backward_input(int64_t rows, int64_t in, int64_t out, const T* w, const T* dy, T* dx) {
  linear_product(rows, in, out, dy, w, false, true, dx);
}

/// dW (out, in) += dy^T x. Part of linear_backward.
template <class T>
void linear_backward_weight(int64_t rows, int64_t in, int64_t out, const T* x, const T* dy, T* dw) {
  using Tiles = LinearTiles<T>;
  constexpr int64_t lanes = Tiles::lanes;
  const int64_t in_tiles = (in + Tiles::depth - 1) / Tiles::depth;
  const int64_t out_tiles = (out + Tiles::outputs - 1) / Tiles::outputs;
  std::vector<LinearWorkspace<T>> threads(max_threads());
  parallel_for(out_tiles * in_tiles, [&](int64_t unit, int thread) {
    LinearWorkspace<T>& work = threads[thread];
    const int64_t o = unit / in_tiles * Tiles::outputs;
    const int64_t i = unit % in_tiles * Tiles::depth;
    const int64_t m = std::min(Tiles::outputs, out - o);
    const int64_t n = std::min(Tiles::depth, in - i);
    const int64_t panel_size =
        round_up(padded_channels<T>(m), std::lcm(Tile<T>::strip, Tile<T>::outer_rows)) * lanes;
    const int64_t stride = row_stride<T>(n);
    for (int64_t r = 0; r < rows; r += Tiles::rows) {
      const int64_t count = std::min(Tiles::rows, rows - r);
      const int64_t panels = (count + lanes - 1) / lanes;
      work.panels.resize(panels * panel_size);
      work.matrix.resize(panels * lanes * stride);
      load_matrix(count, n, x + r * in + i, in, panels * lanes, stride, work.matrix.data());
      work.operands.clear();
      for (int64_t p = 0; p < panels; ++p) {
        T* panel = work.panels.data() + p * panel_size;
        load_panel(
            std::min(lanes, count - p * lanes), m,
            [&](int64_t lane) { return dy + (r + p * lanes + lane) * out + o; }, panel);
        work.operands.push_back({panel, work.matrix.data() + p * lanes * stride, 0, m});
      }
      Tile<T>::outer_product(m, n, work.operands, stride, dw + o * in + i, in);
    }
  });
}

/// dx (rows, in) += dy W,  dW (out, in) += dy^T x,  for dy (rows, out).
template <class T>
void linear_backward(int64_t rows, int64_t in, int64_t out, const T* x, const T* w, const T* dy,
                     T* dx, T* dw) {
  linear_backward_input(rows, in, out, w, dy, dx);
  linear_backward_weight(rows, in, out, x, dy, dw);
}

}  // namespace bdlm
