#pragma once
// Training steps through the plug-in interface on ranks that are threads, for tests.

#include <omp.h>

#include <map>
#include <string>

#include "optimized/cpu/plugin_driver_test.h"
#include "reference/layout/ownership.h"
#include "reference/parallel/step_case.h"
#include "reference/parallel/thread_communicator.h"

namespace bdlm::test {

/// A communicator of the house as the plug-in interface has it.
class CommunicatorAdapter {
 public:
  explicit CommunicatorAdapter(Communicator& communicator) : communicator_(communicator) {
    plugin_.size = sizeof plugin_;
    plugin_.self = this;
    plugin_.rank = communicator.rank();
    plugin_.ranks = communicator.size();
    plugin_.all_gather = [](void* self, const void* send, void* receive, int64_t count,
                            bdlm_dtype dtype, const char* purpose, int64_t* ticket) {
      return guarded(self, [&](CommunicatorAdapter& a) {
        *ticket = a.communicator_
                      .all_gather(a.payload(const_cast<void*>(send), count, dtype),
                                  a.payload(receive, count * a.plugin_.ranks, dtype), purpose)
                      .id;
      });
    };
    plugin_.reduce_scatter = [](void* self, const void* send, void* receive, int64_t count,
                                bdlm_dtype dtype, const char* purpose, int64_t* ticket) {
      return guarded(self, [&](CommunicatorAdapter& a) {
        *ticket =
            a.communicator_
                .reduce_scatter(a.payload(const_cast<void*>(send), count * a.plugin_.ranks, dtype),
                                a.payload(receive, count, dtype), purpose)
                .id;
      });
    };
    plugin_.exchange = [](void* self, int64_t send_count, const bdlm_peer_buffer* sends,
                          int64_t receive_count, const bdlm_peer_buffer* receives, bdlm_dtype dtype,
                          const char* purpose, int64_t* ticket) {
      return guarded(self, [&](CommunicatorAdapter& a) {
        const auto messages = [&](const bdlm_peer_buffer* from, int64_t n) {
          std::vector<PeerPayload> out;
          for (int64_t i = 0; i < n; ++i) {
            out.push_back({from[i].peer, a.payload(from[i].data, from[i].count, dtype)});
          }
          return out;
        };
        *ticket =
            a.communicator_
                .exchange(messages(sends, send_count), messages(receives, receive_count), purpose)
                .id;
      });
    };
    plugin_.wait = [](void* self, int64_t ticket) {
      return guarded(self, [&](CommunicatorAdapter& a) { a.communicator_.wait({ticket}); });
    };
    plugin_.all_reduce = [](void* self, void* data, int64_t count, bdlm_dtype dtype,
                            const char* purpose) {
      return guarded(self, [&](CommunicatorAdapter& a) {
        a.communicator_.all_reduce(a.payload(data, count, dtype), purpose);
      });
    };
  }
  CommunicatorAdapter(const CommunicatorAdapter&) = delete;
  CommunicatorAdapter& operator=(const CommunicatorAdapter&) = delete;

  const bdlm_communicator* get() const { return &plugin_; }

 private:
  template <class F>
  static bdlm_status guarded(void* self, const F& f) {
    try {
      f(*static_cast<CommunicatorAdapter*>(self));
      return BDLM_OK;
    } catch (const std::exception&) {
      return BDLM_COMMUNICATION;
    }
  }
  Payload payload(void* data, int64_t count, bdlm_dtype dtype) const {
    return {data, count, dtype.bits == 64 ? element_type<double>() : element_type<float>()};
  }

  Communicator& communicator_;
  bdlm_communicator plugin_{};
};

/// One rank's call: a step case in the structs of the interface, and its gradients.
class StepCall {
 public:
  StepCall(const DenseCase& c, const DenseParameters<double>& parameters, bdlm_dtype storage,
           Scheme scheme, bool checkpointing)
      : case_(c) {
    const DenseConfig& config = c.config;
    for (const LayerRule& rule : config.rules) {
      windows_.push_back(rule.window);
    }
    model_ = {
        config.layers,
        config.hidden,
        config.q_heads,
        config.kv_heads,
        config.head_dim,
        config.mlp,
        config.vocab,
        config.rope_theta,
        config.rms_eps,
        config.qk_norm ? 1 : 0,
        config.tied ? 1 : 0,
        windows_.data(),
        config.rules[0].clean == CleanRule::block_causal ? BDLM_BLOCK_CAUSAL : BDLM_TOKEN_CAUSAL,
        0};
    const Sequence& sequence = c.example.sequence;
    for (int64_t b = 0; b < sequence.blocks(); ++b) {
      blocks_.push_back(sequence.block(b).begin);
    }
    blocks_.push_back(sequence.length());
    for (const Interval& document : sequence.documents()) {
      documents_.push_back(document.begin);
    }
    documents_.push_back(sequence.documents().back().end);
    layout_ = {sequence.length(),
               sequence.blocks(),
               blocks_.data(),
               std::ssize(documents_) - 1,
               documents_.data(),
               0,
               0,
               0};
    terms_.resize(c.views.size());
    for (size_t n = 0; n < c.views.size(); ++n) {
      for (const LossTerm& term : c.views[n].terms) {
        terms_[n].push_back(
            {static_cast<int32_t>(term.stream), 0, term.row, term.label, term.weight});
      }
      views_.push_back(
          {c.views[n].corrupted_tokens.data(), std::ssize(terms_[n]), terms_[n].data()});
    }
    for (const ParameterEntry& entry : parameters.table().entries()) {
      names_.push_back(entry.name.c_str());
      values_.push_back(std::make_unique<HostTensor>(storage, entry.shape));
      const auto from = parameters.tensor(entry.name);
      values_.back()->fill({from.begin(), from.end()});
      gradients_.push_back(std::make_unique<HostTensor>(fp32, entry.shape));
      value_tensors_.push_back(values_.back()->get());
      gradient_tensors_.push_back(gradients_.back()->get());
    }
    args_.size = sizeof args_;
    args_.model = &model_;
    args_.layout = &layout_;
    args_.tokens = c.example.tokens.data();
    args_.view_count = std::ssize(views_);
    args_.views = views_.data();
    args_.softcap = config.softcap;
    args_.excluded = config.excluded_logit;
    args_.scheme = static_cast<int32_t>(scheme);
    args_.checkpointing = checkpointing ? 1 : 0;
    args_.parameter_count = std::ssize(names_);
    args_.names = names_.data();
    args_.parameters = value_tensors_.data();
    args_.gradients = gradient_tensors_.data();
    args_.loss = &loss_;
  }
  StepCall(const StepCall&) = delete;
  StepCall& operator=(const StepCall&) = delete;

  bdlm_step_args& args() { return args_; }
  double loss() const { return loss_; }
  const HostTensor& gradient(size_t n) const { return *gradients_[n]; }
  size_t size() const { return gradients_.size(); }
  std::vector<std::vector<uint32_t>> bits() const {
    std::vector<std::vector<uint32_t>> out;
    for (const auto& gradient : gradients_) {
      out.push_back(gradient->bits());
    }
    return out;
  }

 private:
  const DenseCase& case_;
  std::vector<int64_t> windows_, blocks_, documents_;
  std::vector<std::vector<bdlm_loss_term>> terms_;
  std::vector<bdlm_view> views_;
  std::vector<const char*> names_;
  std::vector<std::unique_ptr<HostTensor>> values_, gradients_;
  std::vector<const bdlm_tensor*> value_tensors_;
  std::vector<bdlm_tensor*> gradient_tensors_;
  bdlm_dense_model model_{};
  bdlm_layout layout_{};
  bdlm_step_args args_{};
  double loss_ = 0;
};

/// What all ranks came to.
struct StepRun {
  std::vector<std::unique_ptr<StepCall>> calls;  // by rank
  std::vector<std::vector<LogEntry>> logs;
};

struct StepRunOptions {
  bool checkpointing = false;
  /// OpenMP threads of each rank.
  int threads = 1;
};

inline StepRun run_step_on_threads(const bdlm_backend* backend, bdlm_dtype storage,
                                   const DenseCase& c, const DenseParameters<double>& parameters,
                                   Scheme scheme, int ranks, const StepRunOptions& options = {}) {
  StepRun out;
  out.logs.resize(ranks);
  for (int rank = 0; rank < ranks; ++rank) {
    out.calls.push_back(
        std::make_unique<StepCall>(c, parameters, storage, scheme, options.checkpointing));
  }
  std::vector<std::string> errors(ranks);
  run_ranks(ranks,
            [&](Communicator& communicator) {
              const int rank = communicator.rank();
              const CommunicatorAdapter adapter(communicator);
              void* context = nullptr;
              backend->create(&context);
              bdlm_step_args& args = out.calls[rank]->args();
              args.communicator = adapter.get();
              if (backend->step(context, &args) != BDLM_OK) {
                errors[rank] = join("rank ", rank, ": ", backend->last_error(context));
              }
              backend->destroy(context);
              out.logs[rank] = communicator.log();
              require<LogicError>(errors[rank].empty(), errors[rank]);
            },
            {.openmp_threads = options.threads});
  return out;
}

}  // namespace bdlm::test
