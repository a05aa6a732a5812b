#include "conformance/judge/bounds.h"
#include "conformance/judge/gradient_reduction.h"
#include "reference/base/error.h"

namespace bdlm {
namespace {

/// A query row that sees the key at hand.
struct Row {
  int stream;
  int64_t row;
};

/// dK and dV of one key and KV head: sums over the rows that see it and the query heads of the
/// group.
class KeyBounds {
 public:
  KeyBounds(const AttentionProblem<double>& problem, const Decomposition& decomposition,
            const Contract& contract, const RowTermsByStream& rows, ExpectedAttention& expected)
      : p_(problem),
        decomposition_(decomposition),
        contract_(contract),
        model_(contract, problem.shape.head_dim),
        d_(problem.shape.head_dim),
        rows_(rows),
        expected_(expected) {
    for (Sums* sums : {&dk_, &dv_}) {
      sums->parts.resize(decomposition.ranks * d_);
      for (auto* sum : {&sums->squares, &sums->error, &sums->variance}) {
        sum->resize(d_);
      }
    }
    used_.resize(decomposition.ranks);
  }

  void run(const std::vector<Row>& seen_by, int stream, int64_t key, int64_t kv_head) {
    if (seen_by.empty()) {
      return;
    }
    for (Sums* sums : {&dk_, &dv_}) {
      for (auto* sum : {&sums->parts, &sums->squares, &sums->error, &sums->variance}) {
        std::fill(sum->begin(), sum->end(), 0);
      }
    }
    std::fill(used_.begin(), used_.end(), 0);
    const int64_t at = (key * p_.shape.kv_heads + kv_head) * d_;
    const int64_t group = p_.shape.group();
    terms_ = static_cast<int64_t>(seen_by.size()) * group;
    for (const Row& row : seen_by) {
      const int rank = decomposition_.row_rank[row.stream][row.row];
      used_[rank] = 1;
      for (int64_t h = kv_head * group; h < (kv_head + 1) * group; ++h) {
        add(row, h, rank, &p_.k[stream][at], &p_.v[stream][at]);
      }
    }
    const int owner = std::max(0, decomposition_.row_rank[stream][key]);
    finish(dk_, expected_.dk, stream, at, owner);
    finish(dv_, expected_.dv, stream, at, owner);
  }

 private:
  /// Sums over rows and heads, by channel; `parts` by rank and channel.
  struct Sums {
    std::vector<double> parts, squares, error, variance;
  };

  void add(const Row& at, int64_t head, int rank, const double* k, const double* v) {
    const RowTerms& row = rows_[at.stream][at.row * p_.shape.q_heads + head];
    const int64_t q_at = (at.row * p_.shape.q_heads + head) * d_;
    const double* q = &p_.q[at.stream][q_at];
    const double* d_o = &p_.d_o[at.stream][q_at];
    const PairTerms t = pair_terms(d_, p_.scale, q, k, v, d_o);
    const double p = std::exp(t.score - row.z);
    const double ds = p_.scale * p * (t.dp - row.delta);
    const double chain = model_.chain(terms_) * model_.u();
    // dV: p |dO| (u_P + (exp(2e) - 1) + c u) + tiny_P |dO|
    const double dv_error =
        p * (model_.site(contract_.p) + model_.probability_error(t, row) + chain) +
        ErrorModel::tiny(contract_.p);
    // p^2 dO^2 (kappa u_P^2 + var(s) + var(z))
    const double dv_variance = p * p *
                                   (ErrorModel::variance(model_.site(contract_.p)) +
                                    model_.score_variance(t, row) + row.z_variance) +
                               ErrorModel::tiny_variance(contract_.p);
    // dK: H_dS |q| + c u |ds q|
    const double dk_error = model_.ds_error(p_.scale, p, ds, t, row) + chain * std::abs(ds);
    // var(dS) q^2 + ds^2 var(z) q^2 + p^2 scale^2 VarD q^2
    const double dk_variance = model_.ds_variance(p_.scale, p, ds, t, row) +
                               ds * ds * row.z_variance +
                               p * p_.scale * p * p_.scale * row.delta_variance;
    double* dv_part = &dv_.parts[rank * d_];
    double* dk_part = &dk_.parts[rank * d_];
    for (int64_t c = 0; c < d_; ++c) {
      dv_part[c] += p * d_o[c];
      dv_.squares[c] += p * d_o[c] * p * d_o[c];
      dv_.error[c] += dv_error * std::abs(d_o[c]);
      dv_.variance[c] += dv_variance * d_o[c] * d_o[c];
      dk_part[c] += ds * q[c];
      dk_.squares[c] += ds * q[c] * ds * q[c];
      dk_.error[c] += dk_error * std::abs(q[c]);
      dk_.variance[c] += dk_variance * q[c] * q[c];
    }
  }

  void finish(const Sums& sums, ExpectedTensor& tensor, int stream, int64_t at, int owner) {
    const int ranks = decomposition_.ranks;
    const GradientReturn how = decomposition_.gradient_return[stream];
    const double u_t = model_.site(contract_.reduce);
    const bool rounds = how != GradientReturn::local && u_t > 0;
    double u_out = model_.site(contract_.gradient);
    if (rounds && how == GradientReturn::reduced && unit_roundoff(contract_.gradient) <= u_t) {
      u_out = 0;  // the last sum has been rounded to a format no finer than the output
    }
    PartialGradients x{std::vector<double>(ranks), used_};
    for (int64_t c = 0; c < d_; ++c) {
      double value = 0;
      double terms = 0;
      for (int r = 0; r < ranks; ++r) {
        x.part[r] = sums.parts[r * d_ + c];
        value += x.part[r];
        terms += std::abs(x.part[r]);
      }
      double bound = sums.error[c];
      double variance =
          sums.variance[c] + model_.chain_variance(terms_) * (sums.squares[c] + value * value);
      if (how != GradientReturn::local) {
        ReductionTerms reduction;
        if (rounds && how == GradientReturn::reduced) {
          reduction = low_precision_reduction(contract_.reduce_order, owner, x);
        } else if (rounds) {
          // What others send is cast; the owner adds in the format of the accumulation.
          for (int r = 0; r < ranks; ++r) {
            const double sent = r == owner ? 0 : x.part[r];
            reduction.terms += std::abs(sent);
            reduction.squares += sent * sent;
          }
        }
        // + u_T (terms that are rounded) and, from the sums in the accumulation's format, w u sum
        // |part|; what was off before may be rounded w + 1 times more
        bound += u_t * reduction.terms + ranks * model_.u() * terms;
        bound *= 1 + (ranks + 1) * u_t;
        bound += ranks * ErrorModel::tiny(contract_.reduce);
        variance += ErrorModel::variance(u_t) * reduction.squares +
                    ErrorModel::variance(model_.u()) * ranks * terms * terms +
                    ranks * ErrorModel::tiny_variance(contract_.reduce);
      }
      // + u_out (|x| + all that) + tiny_out
      bound += u_out * (std::abs(value) + bound) + ErrorModel::tiny(contract_.gradient);
      variance += ErrorModel::variance(u_out) * value * value +
                  ErrorModel::tiny_variance(contract_.gradient);
      tensor.value[stream][at + c] = value;
      tensor.bound[stream][at + c] = bound;
      tensor.deviation[stream][at + c] = std::sqrt(variance);
    }
  }

  const AttentionProblem<double>& p_;
  const Decomposition& decomposition_;
  const Contract& contract_;
  ErrorModel model_;
  const int64_t d_;
  const RowTermsByStream& rows_;
  ExpectedAttention& expected_;
  int64_t terms_ = 0;
  Sums dk_, dv_;
  std::vector<char> used_;
};

/// Throws where the key's gradient has parts on ranks that nothing brings together.
void check_return(const Decomposition& decomposition, const std::vector<Row>& seen_by, int stream,
                  int64_t key) {
  if (decomposition.gradient_return[stream] != GradientReturn::local) {
    return;
  }
  for (const Row& row : seen_by) {
    const int first = decomposition.row_rank[seen_by[0].stream][seen_by[0].row];
    const int rank = decomposition.row_rank[row.stream][row.row];
    require(rank == first, "rows of ranks ", first, " and ", rank, " see ",
            name(static_cast<Stream>(stream)), " key ", key,
            ", whose gradient is not reduced; such ranks are judged one by one");
  }
}

}  // namespace

void bound_keys(const AttentionProblem<double>& problem, const Decomposition& decomposition,
                const Contract& contract, const RowTermsByStream& rows,
                ExpectedAttention& expected) {
  for (int s = 0; s < 2; ++s) {
    // rows_of[key]: who sees it, in the order of streams and positions.
    std::vector<std::vector<Row>> rows_of(problem.length);
    for (int query = 0; query < 2; ++query) {
      for (int64_t row = 0; row < problem.length; ++row) {
        for (const KeyPart& part : decomposition.parts[query][row]) {
          if (static_cast<int>(part.stream) == s) {
            for (int64_t key = part.keys.begin; key < part.keys.end; ++key) {
              rows_of[key].push_back({query, row});
            }
          }
        }
      }
    }
    for (int64_t key = 0; key < problem.length; ++key) {
      check_return(decomposition, rows_of[key], s, key);
    }
#pragma omp parallel
    {
      KeyBounds bounds(problem, decomposition, contract, rows, expected);
#pragma omp for schedule(dynamic, 8)
      for (int64_t key = 0; key < problem.length; ++key) {
        for (int64_t head = 0; head < problem.shape.kv_heads; ++head) {
          bounds.run(rows_of[key], s, key, head);
        }
      }
    }
  }
}

}  // namespace bdlm
