#include "conformance/suites/plugin_group.h"

#include <chrono>
#include <cstring>
#include <thread>

#include "reference/base/error.h"
#include "reference/base/small_float.h"
#include "reference/parallel/thread_group.h"

namespace bdlm {
namespace {

/// 16-bit numbers: moved as they are, added in double and rounded.
struct Bf16 {
  uint16_t bits;
  static double value(Bf16 x) { return bf16_value(x.bits); }
  static Bf16 of(double x) { return {round_to_bf16(x)}; }
};
struct Fp16 {
  uint16_t bits;
  static double value(Fp16 x) { return f16_value(x.bits); }
  static Fp16 of(double x) { return {round_to_f16(x)}; }
};

template <class T>
const ElementType* small_type(const char* name) {
  static const ElementType type{
      name,
      2,
      true,
      [](void* dst, const void* src, int64_t n) {
        std::memcpy(dst, src, static_cast<size_t>(2 * n));
      },
      [](void* dst, const void* src, int64_t n) {
        auto* to = static_cast<T*>(dst);
        const auto* from = static_cast<const T*>(src);
        for (int64_t i = 0; i < n; ++i) {
          to[i] = T::of(T::value(to[i]) + T::value(from[i]));
        }
      },
      [](void* data, int64_t i) -> void* { return static_cast<T*>(data) + i; }};
  return &type;
}

const ElementType* type_of(bdlm_dtype dtype) {
  require(dtype.lanes == 1, "elements of ", dtype.lanes, " lanes do not travel; allowed is 1");
  if (dtype.code == 2 && dtype.bits == 64) {
    return element_type<double>();
  }
  if (dtype.code == 2 && dtype.bits == 32) {
    return element_type<float>();
  }
  if (dtype.code == 2 && dtype.bits == 16) {
    return small_type<Fp16>("f16");
  }
  require(dtype.code == 4 && dtype.bits == 16, "elements of code ", int{dtype.code}, " and ",
          int{dtype.bits}, " bits do not travel; allowed are bf16, fp16, fp32, f64");
  return small_type<Bf16>("bf16");
}

Dtype format_of(bdlm_dtype dtype) {
  return dtype.code == 4    ? Dtype::bf16
         : dtype.bits == 64 ? Dtype::f64
         : dtype.bits == 32 ? Dtype::fp32
                            : Dtype::fp16;
}

Payload payload(const void* data, int64_t count, bdlm_dtype dtype) {
  return {const_cast<void*>(data), count, type_of(dtype)};
}

std::vector<PeerPayload> messages(const bdlm_peer_buffer* from, int64_t count, bdlm_dtype dtype) {
  std::vector<PeerPayload> out;
  for (int64_t i = 0; i < count; ++i) {
    out.push_back({from[i].peer, payload(from[i].data, from[i].count, dtype)});
  }
  return out;
}

}  // namespace

template <class F>
bdlm_status PluginGroup::guarded(void* self, const F& f) {
  auto& group = *static_cast<PluginGroup*>(self);
  try {
    if (group.delay_us_ > 0) {
      std::this_thread::sleep_for(std::chrono::microseconds(group.delay_us_));
    }
    f(group);
    return BDLM_OK;
  } catch (const std::exception& error) {
    group.aborted_ = group.aborted_ ||
                     (group.error_.empty() && dynamic_cast<const GroupAborted*>(&error) != nullptr);
    group.error_ = group.error_.empty() ? error.what() : group.error_;
    return BDLM_COMMUNICATION;
  }
}

void PluginGroup::record(int32_t operation, int64_t elements, bdlm_dtype dtype, int32_t peer,
                         const char* purpose) {
  traffic_.push_back(
      {operation, elements, format_of(dtype), peer, purpose == nullptr ? "" : purpose});
}

PluginGroup::PluginGroup(Communicator& communicator, int64_t delay_us)
    : communicator_(communicator), delay_us_(delay_us) {
  plugin_.size = sizeof plugin_;
  plugin_.self = this;
  plugin_.rank = communicator.rank();
  plugin_.ranks = communicator.size();
  plugin_.all_gather = [](void* self, const void* send, void* receive, int64_t count,
                          bdlm_dtype dtype, const char* purpose, int64_t* ticket) {
    return guarded(self, [&](PluginGroup& g) {
      g.record(BDLM_ALL_GATHER, count * (g.plugin_.ranks - 1), dtype, -1, purpose);
      *ticket = g.communicator_
                    .all_gather(payload(send, count, dtype),
                                payload(receive, count * g.plugin_.ranks, dtype), purpose)
                    .id;
    });
  };
  plugin_.reduce_scatter = [](void* self, const void* send, void* receive, int64_t count,
                              bdlm_dtype dtype, const char* purpose, int64_t* ticket) {
    return guarded(self, [&](PluginGroup& g) {
      g.record(BDLM_REDUCE_SCATTER, count * (g.plugin_.ranks - 1), dtype, -1, purpose);
      *ticket = g.communicator_
                    .reduce_scatter(payload(send, count * g.plugin_.ranks, dtype),
                                    payload(receive, count, dtype), purpose)
                    .id;
    });
  };
  plugin_.exchange = [](void* self, int64_t send_count, const bdlm_peer_buffer* sends,
                        int64_t receive_count, const bdlm_peer_buffer* receives, bdlm_dtype dtype,
                        const char* purpose, int64_t* ticket) {
    return guarded(self, [&](PluginGroup& g) {
      for (int64_t i = 0; i < send_count; ++i) {
        g.record(BDLM_SEND, sends[i].count, dtype, sends[i].peer, purpose);
      }
      for (int64_t i = 0; i < receive_count; ++i) {
        g.record(BDLM_RECEIVE, receives[i].count, dtype, receives[i].peer, purpose);
      }
      *ticket = g.communicator_
                    .exchange(messages(sends, send_count, dtype),
                              messages(receives, receive_count, dtype), purpose)
                    .id;
    });
  };
  plugin_.wait = [](void* self, int64_t ticket) {
    return guarded(self, [&](PluginGroup& g) { g.communicator_.wait({ticket}); });
  };
  plugin_.all_reduce = [](void* self, void* data, int64_t count, bdlm_dtype dtype,
                          const char* purpose) {
    return guarded(self, [&](PluginGroup& g) {
      g.record(BDLM_ALL_REDUCE, count, dtype, -1, purpose);
      g.communicator_.all_reduce(payload(data, count, dtype), purpose);
    });
  };
}

}  // namespace bdlm
