#pragma once
// Cross-entropy through the output head, a few rows at a time, so that the logits of all rows never
// exist at once.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "reference/base/error.h"
#include "reference/math/exp_row.h"
#include "reference/math/linear.h"
#include "reference/math/log_domain.h"

namespace bdlm {

struct CrossEntropyShape {
  int64_t rows = 0;
  int64_t hidden = 0;  // H
  int64_t vocab = 0;   // V
};

struct CrossEntropyOptions {
  /// A logit that is left out of the softmax (that of the mask token); -1 for none.
  int64_t excluded = -1;
  /// c > 0 puts c tanh(x / c) in place of every logit x, before one is excluded; 0 for none.
  double softcap = 0;
  /// Rows whose logits exist at once. The loss and d_hidden do not depend on it; d_head does only
  /// in the rounding of its sums.
  int64_t row_chunk = 192;
};

/// The rows that count: label not -1 and weight not 0. Throws InputError on an option or label that
/// is out of range, and on a label that is the excluded logit.
template <class T>
std::vector<int64_t> counted_rows(const CrossEntropyShape& shape, std::span<const int64_t> labels,
                                  std::span<const T> weights, const CrossEntropyOptions& options) {
  require(shape.rows >= 0 && shape.hidden >= 1 && shape.vocab >= 1, "cross-entropy has ",
          shape.rows, " rows, hidden size ", shape.hidden, ", vocabulary ", shape.vocab,
          "; sizes must be at least 1");
  const auto rows = static_cast<size_t>(shape.rows);
  require(labels.size() == rows && weights.size() == rows, "there are ", rows, " rows, ",
          labels.size(), " labels and ", weights.size(), " weights; the numbers must be equal");
  require(options.excluded >= -1 && options.excluded < shape.vocab, "the excluded logit is ",
          options.excluded, "; it must be -1 or below the vocabulary size ", shape.vocab);
  require(options.softcap >= 0, "the softcap is ", options.softcap, "; it must not be negative");
  require(options.row_chunk >= 1, "row_chunk is ", options.row_chunk, "; it must be at least 1");
  std::vector<int64_t> counted;
  for (int64_t row = 0; row < shape.rows; ++row) {
    const int64_t label = labels[row];
    require(label >= -1 && label < shape.vocab, "the label of row ", row, " is ", label,
            "; it must be -1 (none) or below the vocabulary size ", shape.vocab);
    if (label == -1 || weights[row] == T(0)) {
      continue;
    }
    require(label != options.excluded, "the label of row ", row, " is ", label,
            ", the logit that is left out of the softmax; it must be another");
    counted.push_back(row);
  }
  return counted;
}

/// The hidden rows and logits of one chunk.
template <class T>
struct LogitChunk {
  std::span<const int64_t> rows;
  std::vector<T> hidden;  // (chunk, H)
  std::vector<T> logits;  // (chunk, V), after the softcap

  LogitChunk(const CrossEntropyShape& shape, std::span<const int64_t> chunk_rows,
             const T* all_hidden, const T* head, const CrossEntropyOptions& options)
      : rows(chunk_rows),
        hidden(chunk_rows.size() * shape.hidden),
        logits(chunk_rows.size() * shape.vocab) {
    const auto count = static_cast<int64_t>(rows.size());
    for (int64_t i = 0; i < count; ++i) {
      std::copy_n(all_hidden + rows[i] * shape.hidden, shape.hidden,
                  hidden.data() + i * shape.hidden);
    }
    linear_forward(count, shape.hidden, shape.vocab, hidden.data(), head, logits.data());
    if (options.softcap > 0) {
      const T cap(options.softcap);
      parallel_for(count, [&](int64_t i, int) {
        using std::tanh;
        for (int64_t j = i * shape.vocab; j < (i + 1) * shape.vocab; ++j) {
          logits[j] = cap * tanh(logits[j] / cap);
        }
      });
    }
  }
};

/// Turns one row of logits into exp(logit - maximum), 0 for the excluded one. Returns the maximum
/// and the sum.
template <class T>
std::pair<T, T> softmax_terms(int64_t vocab, int64_t excluded, T* row) {
  T maximum = LogDomain<T>::empty();
  for (int64_t j = 0; j < vocab; ++j) {
    if (j != excluded) {
      maximum = LogDomain<T>::larger(maximum, row[j]);
    }
  }
  const T shift = LogDomain<T>::shift(maximum);
  T sum(0);
  if (excluded < 0) {
    sum = exp_row(vocab, shift, row);
  } else {
    sum = exp_row(excluded, shift, row);
    row[excluded] = T(0);
    sum += exp_row(vocab - excluded - 1, shift, row + excluded + 1);
  }
  return {shift, sum};
}

/// Calls f(chunk) for the counted rows, chunk by chunk, in order.
template <class T, class F>
void for_logit_chunks(const CrossEntropyShape& shape, const T* hidden, const T* head,
                      std::span<const int64_t> labels, std::span<const T> weights,
                      const CrossEntropyOptions& options, const F& f) {
  const std::vector<int64_t> counted = counted_rows(shape, labels, weights, options);
  const std::span<const int64_t> all(counted);
  for (size_t i = 0; i < all.size(); i += options.row_chunk) {
    const size_t count = std::min<size_t>(options.row_chunk, all.size() - i);
    LogitChunk<T> chunk(shape, all.subspan(i, count), hidden, head, options);
    f(chunk);
  }
}

/// The sum over rows of weight * (log sum_j exp(x_j) - x_label), x = head hidden with softcap and
/// exclusion. hidden (rows, H), head (V, H), labels and weights (rows). Rows with label -1 or
/// weight 0 take no part, whatever they hold. Throws InputError, see counted_rows.
template <class T>
T cross_entropy_forward(const CrossEntropyShape& shape, const T* hidden, const T* head,
                        std::span<const int64_t> labels, std::span<const T> weights,
                        const CrossEntropyOptions& options = {}) {
  T total(0);
  for_logit_chunks(shape, hidden, head, labels, weights, options, [&](LogitChunk<T>& chunk) {
    std::vector<T> losses(chunk.rows.size());
    parallel_for(static_cast<int64_t>(losses.size()), [&](int64_t i, int) {
      using std::log;
      T* x = chunk.logits.data() + i * shape.vocab;
      const T target = x[labels[chunk.rows[i]]];
      const auto [shift, sum] = softmax_terms(shape.vocab, options.excluded, x);
      losses[i] = weights[chunk.rows[i]] * (log(sum) + (shift - target));
    });
    for (const T& loss : losses) {
      total += loss;
    }
  });
  return total;
}

/// Adds `upstream` times the gradient of cross_entropy_forward to d_hidden (rows, H) and d_head (V,
/// H). With p the softmax and y the capped logit:
///
///   dx_j = upstream weight (p_j - [j = label]) (1 - (y_j / c)^2),  0 for the excluded logit
template <class T>
void cross_entropy_backward(const CrossEntropyShape& shape, const T* hidden, const T* head,
                            std::span<const int64_t> labels, std::span<const T> weights,
                            const T& upstream, T* d_hidden, T* d_head,
                            const CrossEntropyOptions& options = {}) {
  std::vector<T> capped, d_chunk;
  for_logit_chunks(shape, hidden, head, labels, weights, options, [&](LogitChunk<T>& chunk) {
    const auto count = static_cast<int64_t>(chunk.rows.size());
    if (options.softcap > 0) {
      capped = chunk.logits;
    }
    parallel_for(count, [&](int64_t i, int) {
      T* x = chunk.logits.data() + i * shape.vocab;
      const T inverse = T(1) / softmax_terms(shape.vocab, options.excluded, x).second;
      const T factor = upstream * weights[chunk.rows[i]];
      for (int64_t j = 0; j < shape.vocab; ++j) {
        x[j] = x[j] * inverse;
      }
      x[labels[chunk.rows[i]]] -= T(1);
      for (int64_t j = 0; j < shape.vocab; ++j) {
        x[j] *= factor;
        if (options.softcap > 0) {
          const T share = capped[i * shape.vocab + j] / T(options.softcap);
          x[j] *= (T(1) - share) * (T(1) + share);
        }
      }
    });
    d_chunk.assign(count * shape.hidden, T(0));
    linear_backward(count, shape.hidden, shape.vocab, chunk.hidden.data(), head,
                    chunk.logits.data(), d_chunk.data(), d_head);
    for (int64_t i = 0; i < count; ++i) {
      for (int64_t h = 0; h < shape.hidden; ++h) {
        d_hidden[chunk.rows[i] * shape.hidden + h] += d_chunk[i * shape.hidden + h];
      }
    }
  });
}

}  // namespace bdlm
