#include "optimized/cpu/cross_entropy.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <vector>

#include "reference/base/error.h"
#include "reference/base/parallel_for.h"

namespace bdlm::cpu {
namespace {

/// Rows of a chunk, and classes of a group: together the logits that exist at once.
constexpr int64_t chunk_rows = 4 * logit_rows;
constexpr int64_t group_tiles = 32;
/// Hidden channels of one unit of the product that gives d_hidden.
constexpr int64_t unit_channels = 256;

/// One chunk of rows, copied into the layouts of the products.
class Chunk {
 public:
  Chunk(const CrossEntropyProblem& problem, std::span<const int64_t> rows)
      : problem_(problem),
        rows_(rows),
        hidden_(problem.hidden.size(1)),
        stride_(round_up(hidden_, panel_width)),
        row_tiles_((static_cast<int64_t>(rows.size()) + logit_rows - 1) / logit_rows),
        class_tiles_((problem.head.size(0) + logit_classes - 1) / logit_classes),
        values_(row_tiles_ * logit_rows * stride_, 0.0F),
        panels_(row_tiles_ * logit_rows * hidden_, 0.0F),
        d_panels_(panels_.size(), 0.0F),
        terms_(row_tiles_) {
    for (RowTerms& terms : terms_) {
      terms.label.fill(-1);
    }
    for (int64_t i = 0; i < std::ssize(rows_); ++i) {
      float* row = values_.data() + i * stride_;
      problem.hidden.load(hidden_, row, rows_[i]);
      float* panel = panels_.data() + panel_offset(i);
      for (int64_t c = 0; c < hidden_; ++c) {
        panel[c * panel_width] = row[c];
      }
      float weight = 0;
      problem.row_weights.load(1, &weight, rows_[i]);
      RowTerms& terms = terms_[i / logit_rows];
      terms.factor[i % logit_rows] = static_cast<float>(problem.upstream * weight);
      terms.label[i % logit_rows] = problem.labels.integer(rows_[i]);
    }
  }

  /// Maxima, sums and losses.
  void find_losses() {
    std::vector<TileSums> sums(row_tiles_ * class_tiles_);
    std::vector<std::array<float, logit_rows>> label_logit(row_tiles_);
    std::vector<Work> threads(max_threads());
    parallel_for(row_tiles_ * class_tiles_, [&](int64_t unit, int thread) {
      const int64_t row_tile = unit % row_tiles_;
      Work& work = threads[thread];
      float* x = logits(work, row_tile, unit / row_tiles_);
      sums[unit] =
          softmax_sums(work.head, problem_.rule, x, terms_[row_tile].label, label_logit[row_tile]);
    });
    for (int64_t i = 0; i < std::ssize(rows_); ++i) {
      const int64_t row_tile = i / logit_rows;
      const int64_t lane = i % logit_rows;
      float maximum = -std::numeric_limits<float>::infinity();
      for (int64_t t = 0; t < class_tiles_; ++t) {
        maximum = std::max(maximum, sums[t * row_tiles_ + row_tile].maximum[lane]);
      }
      double sum = 0;
      for (int64_t t = 0; t < class_tiles_; ++t) {
        const TileSums& tile = sums[t * row_tiles_ + row_tile];
        // A tile that is all excluded has the maximum -inf, which says that its sum is empty.
        if (tile.maximum[lane] != -std::numeric_limits<float>::infinity() || tile.sum[lane] != 0) {
          sum += tile.sum[lane] *
                 std::exp(static_cast<double>(tile.maximum[lane]) - static_cast<double>(maximum));
        }
      }
      float weight = 0;
      problem_.row_weights.load(1, &weight, rows_[i]);
      const double above = static_cast<double>(maximum) - label_logit[row_tile][lane];
      const auto loss = static_cast<float>(weight * (std::log(sum) + above));
      problem_.row_loss.store(1, &loss, rows_[i]);
      terms_[row_tile].maximum[lane] = maximum;
      terms_[row_tile].inverse_sum[lane] = static_cast<float>(1 / sum);
    }
  }

  /// d_hidden of the chunk's rows, and d_head +=.
  void find_gradients() {
    constexpr int64_t tile_size = logit_rows * logit_classes;
    std::vector<Work> threads(max_threads());
    Floats gradients(std::min(group_tiles, class_tiles_) * row_tiles_ * tile_size);
    for (int64_t first = 0; first < class_tiles_; first += group_tiles) {
      const int64_t tiles = std::min(group_tiles, class_tiles_ - first);
      // Gradients [class tile][row tile][class][row].
      parallel_for(tiles * row_tiles_, [&](int64_t unit, int thread) {
        const int64_t row_tile = unit % row_tiles_;
        Work& work = threads[thread];
        float* x = logits(work, row_tile, first + unit / row_tiles_);
        logit_gradients(work.head, problem_.rule, terms_[row_tile], x);
        std::copy_n(x, work.head.count() * logit_rows, gradients.data() + unit * tile_size);
      });
      const int64_t blocks = (hidden_ + unit_channels - 1) / unit_channels;
      parallel_for(row_tiles_ * blocks, [&](int64_t unit, int thread) {
        const int64_t row_tile = unit / blocks;
        for (int64_t t = 0; t < tiles; ++t) {
          add_d_hidden(threads[thread].head, row_tile, unit % blocks * unit_channels, first + t,
                       gradients.data() + (t * row_tiles_ + row_tile) * tile_size);
        }
      });
      parallel_for(tiles, [&](int64_t t, int thread) {
        add_d_head(threads[thread], first + t, gradients.data() + t * row_tiles_ * tile_size);
      });
    }
    std::vector<float> row(hidden_);
    for (int64_t i = 0; i < std::ssize(rows_); ++i) {
      const float* panel = d_panels_.data() + panel_offset(i);
      for (int64_t c = 0; c < hidden_; ++c) {
        row[c] = panel[c * panel_width];
      }
      problem_.d_hidden.store(hidden_, row.data(), rows_[i]);
    }
  }

 private:
  /// One thread's arrays.
  struct Work {
    HeadTile head;
    Floats logits;  // [class][row]
    Floats d_head;  // (logit_classes, padded hidden)
    Floats row;     // (hidden)
  };

  /// Where channel 0 of row i lies in [row tile][panel][channel][lane].
  int64_t panel_offset(int64_t i) const {
    return i / panel_width * hidden_ * panel_width + i % panel_width;
  }

  float* logits(Work& work, int64_t row_tile, int64_t class_tile) const {
    work.head.load(problem_.head, class_tile, problem_.rule);
    work.logits.resize(logit_rows * logit_classes);
    dot_products(work.head, hidden_, panels_.data() + row_tile * logit_rows * hidden_,
                 work.logits.data());
    return work.logits.data();
  }

  /// Channels from `channel` on of a row tile's d_hidden += gradients^T head.
  void add_d_hidden(HeadTile& head, int64_t row_tile, int64_t channel, int64_t class_tile,
                    const float* gradients) {
    head.load(problem_.head, class_tile, problem_.rule);
    const Strided& values = head.values();
    for (int64_t p = 0; p < logit_panels; ++p) {
      panel_product(std::min(unit_channels, hidden_ - channel), head.count(),
                    {values.data + channel, 1, values.row}, gradients + p * panel_width, logit_rows,
                    d_panels_.data() + (row_tile * logit_rows + p * panel_width) * hidden_ +
                        channel * panel_width,
                    panel_width, true);
    }
  }

  /// A class tile's d_head += gradients of all rows times their hidden values.
  void add_d_head(Work& work, int64_t class_tile, const float* gradients) const {
    const int64_t first = class_tile * logit_classes;
    const int64_t count = std::min(logit_classes, problem_.head.size(0) - first);
    work.d_head.resize(logit_classes * stride_);
    for (int64_t r = 0; r < row_tiles_; ++r) {
      for (int64_t c = 0; c < stride_; c += panel_width) {
        panel_product(count, logit_rows,
                      {gradients + r * logit_rows * logit_classes, logit_rows, 1},
                      values_.data() + r * logit_rows * stride_ + c, stride_,
                      work.d_head.data() + c, stride_, r > 0);
      }
    }
    work.row.resize(hidden_);
    for (int64_t j = 0; j < count; ++j) {
      problem_.d_head.load(hidden_, work.row.data(), first + j);
      for (int64_t c = 0; c < hidden_; ++c) {
        work.row[c] += work.d_head[j * stride_ + c];
      }
      problem_.d_head.store(hidden_, work.row.data(), first + j);
    }
  }

  const CrossEntropyProblem& problem_;
  std::span<const int64_t> rows_;
  int64_t hidden_, stride_, row_tiles_, class_tiles_;
  Floats values_;                // (rows, padded hidden)
  Floats panels_, d_panels_;     // [row tile][panel][channel][lane]
  std::vector<RowTerms> terms_;  // by row tile
};

}  // namespace

void check(const CrossEntropyProblem& problem) {
  const int64_t vocab = problem.head.size(0);
  require(vocab >= 1 && problem.hidden.size(1) >= 1, "the head has ", vocab, " classes of ",
          problem.hidden.size(1), " channels; at least 1 each is needed");
  const double softcap = problem.rule.softcap;
  require(softcap >= 0 && std::isfinite(softcap), "the softcap is ", softcap,
          "; it must be finite and not negative");
  require(std::isfinite(problem.upstream), "upstream is ", problem.upstream, "; it must be finite");
  const int64_t excluded = problem.rule.excluded;
  require(-1 <= excluded && excluded < vocab, "the excluded class is ", excluded,
          "; it must be -1 or below the vocabulary size ", vocab);
  for (int64_t row = 0; row < problem.labels.size(0); ++row) {
    const int64_t label = problem.labels.integer(row);
    require(label < vocab, "the label of row ", row, " is ", label,
            "; it must be below the vocabulary size ", vocab);
    if (label < 0) {
      continue;
    }
    require(label != excluded, "the label of row ", row, " is ", label,
            ", the class that is left out of the softmax; it must be another");
    float weight = 0;
    problem.row_weights.load(1, &weight, row);
    require(std::isfinite(weight), "the weight of row ", row, " is ", weight,
            "; it must be finite");
  }
}

CrossEntropyProblem read_problem(const bdlm_cross_entropy_args& args, const Formats& formats) {
  require(args.size >= sizeof(args), "the arguments have ", args.size, " bytes; this version has ",
          sizeof(args));
  CrossEntropyProblem p;
  p.hidden = TensorView::of(args.hidden, "hidden", 2, {formats.input});
  p.head = TensorView::of(args.head, "head", 2, {formats.input});
  p.labels = TensorView::of(args.labels, "labels", 1, {Element::int64});
  p.row_weights = TensorView::of(args.row_weights, "row_weights", 1, {Element::fp32});
  p.row_loss = TensorView::of(args.row_loss, "row_loss", 1, {Element::fp32});
  p.d_hidden = TensorView::of(args.d_hidden, "d_hidden", 2, {formats.gradient, Element::fp32});
  p.d_head = TensorView::of(args.d_head, "d_head", 2, {Element::fp32});
  p.rule = {args.softcap, args.excluded};
  p.upstream = args.upstream;
  const int64_t rows = p.hidden.size(0);
  const int64_t hidden = p.hidden.size(1);
  const int64_t vocab = p.head.size(0);
  p.head.expect("head", {vocab, hidden});
  p.labels.expect("labels", {rows});
  p.row_weights.expect("row_weights", {rows});
  p.row_loss.expect("row_loss", {rows});
  p.d_hidden.expect("d_hidden", {rows, hidden});
  p.d_head.expect("d_head", {vocab, hidden});
  check(p);
  return p;
}

void cross_entropy(const CrossEntropyProblem& problem) {
  std::vector<int64_t> counted;
  const float zero = 0;
  for (int64_t row = 0; row < problem.hidden.size(0); ++row) {
    float weight = 0;
    problem.row_weights.load(1, &weight, row);
    if (problem.labels.integer(row) >= 0 && weight != 0) {
      counted.push_back(row);
    } else {
      problem.row_loss.store(1, &zero, row);
      problem.d_hidden.clear(problem.hidden.size(1), row);
    }
  }
  const std::span<const int64_t> all(counted);
  for (size_t i = 0; i < all.size(); i += chunk_rows) {
    Chunk chunk(problem, all.subspan(i, std::min<size_t>(chunk_rows, all.size() - i)));
    chunk.find_losses();
    chunk.find_gradients();
  }
}

}  // namespace bdlm::cpu
