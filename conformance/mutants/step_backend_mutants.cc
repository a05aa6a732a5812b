#include <algorithm>
#include <cstring>

#include "conformance/judge/rounding.h"
#include "conformance/mutants/backend_mutants.h"

namespace bdlm {
namespace {

/// What a faulty step may change: copies of all that its arguments point to, and the group.
struct StepCopy {
  bdlm_step_args args;
  bdlm_dense_model model;
  bdlm_layout layout;
  bdlm_communicator group;
  std::vector<int64_t> windows, documents;
  std::vector<std::vector<bdlm_loss_term>> terms;
  std::vector<bdlm_view> views;

  explicit StepCopy(const bdlm_step_args& from)
      : args(from), model(*from.model), layout(*from.layout), group(*from.communicator) {
    windows.assign(model.window, model.window + model.layers);
    documents.assign(layout.document_start, layout.document_start + layout.documents + 1);
    for (int64_t v = 0; v < from.view_count; ++v) {
      views.push_back(from.views[v]);
      terms.emplace_back(views[v].terms, views[v].terms + views[v].term_count);
    }
  }

  bdlm_status call(const bdlm_backend& right, void* context) {
    model.window = windows.data();
    layout.document_start = documents.data();
    for (size_t v = 0; v < views.size(); ++v) {
      views[v].terms = terms[v].data();
      views[v].term_count = static_cast<int64_t>(terms[v].size());
    }
    args.model = &model;
    args.layout = &layout;
    args.views = views.data();
    args.communicator = &group;
    return right.step(context, &args);
  }
};

class WrongStep : public ForwardingBackend {
 public:
  WrongStep(const bdlm_backend& right, std::function<void(StepCopy&)> spoil)
      : ForwardingBackend(right), spoil_(std::move(spoil)) {}
  bdlm_status step(void* context, const bdlm_step_args& args) override {
    if (right_.step == nullptr) {
      return BDLM_UNSUPPORTED;
    }
    StepCopy copy(args);
    spoil_(copy);
    return copy.call(right_, context);
  }

 private:
  std::function<void(StepCopy&)> spoil_;
};

/// A group whose operations are answered wrongly; one a thread, since every rank is one.
struct WrongGroup {
  bdlm_communicator right;
};
WrongGroup& wrong_group() {
  static thread_local WrongGroup group;
  return group;
}

bdlm_communicator wrapped_group(const bdlm_communicator& right) {
  wrong_group().right = right;
  bdlm_communicator out = right;
  out.self = &wrong_group();
  out.all_gather = [](void*, const void* send, void* receive, int64_t count, bdlm_dtype dtype,
                      const char* purpose, int64_t* ticket) {
    const bdlm_communicator& r = wrong_group().right;
    return r.all_gather(r.self, send, receive, count, dtype, purpose, ticket);
  };
  out.reduce_scatter = [](void*, const void* send, void* receive, int64_t count, bdlm_dtype dtype,
                          const char* purpose, int64_t* ticket) {
    const bdlm_communicator& r = wrong_group().right;
    return r.reduce_scatter(r.self, send, receive, count, dtype, purpose, ticket);
  };
  out.exchange = [](void*, int64_t sends, const bdlm_peer_buffer* send, int64_t receives,
                    const bdlm_peer_buffer* receive, bdlm_dtype dtype, const char* purpose,
                    int64_t* ticket) {
    const bdlm_communicator& r = wrong_group().right;
    return r.exchange(r.self, sends, send, receives, receive, dtype, purpose, ticket);
  };
  out.wait = [](void*, int64_t ticket) {
    const bdlm_communicator& r = wrong_group().right;
    return r.wait(r.self, ticket);
  };
  out.all_reduce = [](void*, void* data, int64_t count, bdlm_dtype dtype, const char* purpose) {
    const bdlm_communicator& r = wrong_group().right;
    return r.all_reduce(r.self, data, count, dtype, purpose);
  };
  return out;
}

/// Completes a transfer at once; its caller then waits for `done`.
constexpr int64_t done = -7;
bdlm_status complete(bdlm_status started, int64_t ticket, int64_t* to) {
  const bdlm_communicator& r = wrong_group().right;
  *to = done;
  return started == BDLM_OK ? r.wait(r.self, ticket) : started;
}
bdlm_status wait_unless_done(void*, int64_t ticket) {
  const bdlm_communicator& r = wrong_group().right;
  return ticket == done ? BDLM_OK : r.wait(r.self, ticket);
}

/// What ranks received, shard by shard, is spoiled by `Spoil(shards, bytes of one, ranks)`.
using SpoilShards = void (*)(unsigned char*, int64_t, int32_t);
template <SpoilShards spoil>
bdlm_status spoiled_gather(void*, const void* send, void* receive, int64_t count, bdlm_dtype dtype,
                           const char* purpose, int64_t* ticket) {
  const bdlm_communicator& r = wrong_group().right;
  int64_t own = 0;
  const bdlm_status started = r.all_gather(r.self, send, receive, count, dtype, purpose, &own);
  const bdlm_status status = complete(started, own, ticket);
  if (status == BDLM_OK) {
    spoil(static_cast<unsigned char*>(receive), count * (dtype.bits / 8), r.ranks);
  }
  return status;
}

void swap_shards(unsigned char* shards, int64_t bytes, int32_t ranks) {
  if (ranks > 1) {
    std::swap_ranges(shards, shards + bytes, shards + bytes);
  }
}

/// The first gather's rows again and again.
void keep_first(unsigned char* shards, int64_t bytes, int32_t ranks) {
  static thread_local std::vector<unsigned char> first;
  const auto size = static_cast<size_t>(bytes * ranks);
  if (first.size() == size) {
    std::copy(first.begin(), first.end(), shards);
  } else {
    first.assign(shards, shards + size);
  }
}

void lose_last(unsigned char* shards, int64_t bytes, int32_t ranks) {
  std::fill_n(shards + (ranks - 1) * bytes, bytes, static_cast<unsigned char>(0));
}

bool is_gradient(const char* purpose) {
  return std::string_view(purpose) == "parameters";
}

}  // namespace

std::vector<BackendMutant> step_backend_mutants() {
  std::vector<BackendMutant> out;
  const auto add = [&](const std::string& name, const std::string& kind, const std::string& what,
                       const std::string& tier, const std::string& cases,
                       std::function<void(StepCopy&)> spoil) {
    out.push_back(
        {name, kind, what, tier, cases, [=](const bdlm_backend& right) -> const bdlm_backend& {
           return entries_of(name, std::make_unique<WrongStep>(right, spoil));
         }});
  };
  add("step-denominator-of-rank", "loss normalisation",
      "a rank divides by its own number of tokens", "T4", "csbp-P2*step*", [](StepCopy& s) {
        for (auto& terms : s.terms) {
          for (bdlm_loss_term& term : terms) {
            term.weight *= s.group.rank == 1 ? 1.25 : 1;
          }
        }
      });
  add("step-weights-dropped", "loss weights", "1/t is replaced by the mean weight", "T4",
      "csbp-P2*step*", [](StepCopy& s) {
        for (auto& terms : s.terms) {
          double sum = 0;
          for (const bdlm_loss_term& term : terms) {
            sum += term.weight;
          }
          for (bdlm_loss_term& term : terms) {
            term.weight = sum / static_cast<double>(terms.size());
          }
        }
      });
  add("step-label-shifted", "labels", "a term has the next term's label", "T4", "csbp-P2*step*",
      [](StepCopy& s) {
        for (auto& terms : s.terms) {
          for (size_t i = 0; i + 1 < terms.size(); ++i) {
            terms[i].label = terms[i + 1].label;
          }
        }
      });
  add("step-view-dropped", "objective", "the second view is left out", "T4", "csbp-P2*stepviews*",
      [](StepCopy& s) { s.args.view_count = 1; });
  add("step-softcap-ignored", "softmax", "logits are not capped", "T4", "csbp-P2*stepoptions*",
      [](StepCopy& s) { s.args.softcap = 0; });
  add("step-excluded-kept", "softmax", "the mask token's logit is kept", "T4",
      "csbp-P2*stepoptions*", [](StepCopy& s) { s.args.excluded = -1; });
  add("step-window-ignored", "mask", "sliding layers see everything", "T4", "csbp-P2*w4*step*",
      [](StepCopy& s) { std::fill(s.windows.begin(), s.windows.end(), 0); });
  add("step-first-layer-window", "mask", "every layer has the first one's window", "T4",
      "csbp-P2*w4*step*",
      [](StepCopy& s) { std::fill(s.windows.begin(), s.windows.end(), s.windows[0]); });
  add("step-norm-epsilon", "norms", "the norms' epsilon is 1e-3", "T4", "csbp-P2*step*",
      [](StepCopy& s) { s.model.rms_epsilon = 1e-3; });
  add("step-rope-base", "positions", "the rotary base is 500000", "T4", "csbp-P2*step*",
      [](StepCopy& s) { s.model.rope_theta = 500000; });
  add("step-rank-gradient-lost", "sum over ranks", "rank 1 adds nothing to the gradients", "T4",
      "csbp-P2*step*", [](StepCopy& s) {
        s.group = wrapped_group(s.group);
        s.group.all_reduce = [](void*, void* data, int64_t count, bdlm_dtype dtype,
                                const char* purpose) {
          const bdlm_communicator& r = wrong_group().right;
          if (r.rank == 1 && is_gradient(purpose)) {
            auto* bytes = static_cast<unsigned char*>(data);
            std::fill(bytes, bytes + count * (dtype.bits / 8), 0);
          }
          return r.all_reduce(r.self, data, count, dtype, purpose);
        };
      });
  add("step-own-gradient-only", "sum over ranks", "attention's gradients are not summed over ranks",
      "T4", "csbp-P2*stepmasked*", [](StepCopy& s) {
        s.group = wrapped_group(s.group);
        s.group.reduce_scatter = [](void*, const void* send, void* receive, int64_t count,
                                    bdlm_dtype dtype, const char* purpose, int64_t* ticket) {
          const bdlm_communicator& r = wrong_group().right;
          std::vector<unsigned char> mine(count * r.ranks * (dtype.bits / 8));
          std::copy_n(static_cast<const unsigned char*>(send), mine.size(), mine.begin());
          // What goes to others is zero.
          for (int32_t rank = 0; rank < r.ranks; ++rank) {
            if (rank != r.rank) {
              std::fill_n(mine.begin() + rank * count * (dtype.bits / 8), count * (dtype.bits / 8),
                          0);
            }
          }
          int64_t own = 0;
          const bdlm_status started =
              r.reduce_scatter(r.self, mine.data(), receive, count, dtype, purpose, &own);
          return complete(started, own, ticket);
        };
        s.group.wait = wait_unless_done;
      });
  const auto gather = [&](const std::string& name, const std::string& kind, const std::string& what,
                          auto entry) {
    add(name, kind, what, "T4", "csbp-P2*stepmasked*", [=](StepCopy& s) {
      s.group = wrapped_group(s.group);
      s.group.all_gather = entry;
      s.group.wait = wait_unless_done;
    });
  };
  gather("step-owner-order", "gathered order", "ranks' rows are taken for each other's",
         spoiled_gather<swap_shards>);
  gather("step-stale-keys", "stale keys", "every layer has the first one's gathered K and V",
         spoiled_gather<keep_first>);
  gather("step-shard-dropped", "coverage", "the last rank's rows are not there",
         spoiled_gather<lose_last>);
  add("step-bf16-reduction", "declared formats", "gradients are rounded to bf16 before their sum",
      "T4", "csbp-P2*stepmasked*", [](StepCopy& s) {
        s.group = wrapped_group(s.group);
        s.group.reduce_scatter = [](void*, const void* send, void* receive, int64_t count,
                                    bdlm_dtype dtype, const char* purpose, int64_t* ticket) {
          const bdlm_communicator& r = wrong_group().right;
          std::vector<float> mine(count * r.ranks);
          std::memcpy(mine.data(), send, mine.size() * sizeof(float));
          for (float& x : mine) {
            x = static_cast<float>(round_to(x, Dtype::bf16));
          }
          int64_t own = 0;
          const bdlm_status started =
              r.reduce_scatter(r.self, mine.data(), receive, count, dtype, purpose, &own);
          return complete(started, own, ticket);
        };
        s.group.wait = wait_unless_done;
      });
  add("step-halo-lost", "halo", "rows that neighbours send arrive as zeros", "T4",
      "csbp-P2*w4*stepoptions*", [](StepCopy& s) {
        s.group = wrapped_group(s.group);
        s.group.exchange = [](void*, int64_t sends, const bdlm_peer_buffer* send, int64_t receives,
                              const bdlm_peer_buffer* receive, bdlm_dtype dtype,
                              const char* purpose, int64_t* ticket) {
          const bdlm_communicator& r = wrong_group().right;
          int64_t own = 0;
          const bdlm_status started =
              r.exchange(r.self, sends, send, receives, receive, dtype, purpose, &own);
          const bdlm_status status = complete(started, own, ticket);
          for (int64_t i = 0; i < receives; ++i) {
            auto* bytes = static_cast<unsigned char*>(receive[i].data);
            std::fill_n(bytes, receive[i].count * (dtype.bits / 8), static_cast<unsigned char>(0));
          }
          return status;
        };
        s.group.wait = wait_unless_done;
      });
  add("step-gathers-twice", "traffic", "K and V are gathered twice", "T7", "csbp-P2*stepmasked*",
      [](StepCopy& s) {
        s.group = wrapped_group(s.group);
        s.group.all_gather = [](void*, const void* send, void* receive, int64_t count,
                                bdlm_dtype dtype, const char* purpose, int64_t* ticket) {
          const bdlm_communicator& r = wrong_group().right;
          bdlm_status status = r.all_gather(r.self, send, receive, count, dtype, purpose, ticket);
          status = status == BDLM_OK ? r.wait(r.self, *ticket) : status;
          return status == BDLM_OK
                     ? r.all_gather(r.self, send, receive, count, dtype, purpose, ticket)
                     : status;
        };
      });
  return out;
}

}  // namespace bdlm
