#pragma once
// Engines that pack, unpack or add the wrong rows.

#include <algorithm>
#include <vector>

#include "reference/parallel/cpu_engine.h"

namespace bdlm {

enum class TransferFault : uint8_t {
  stale_forward,       ///< own K and V in the place of gathered ones
  stale_backward,      ///< the same in the backward only
  unpack_order,        ///< gathered shards are taken to come in the opposite order
  chunks_swapped,      ///< a rank packs its second chunk first
  padding_read,        ///< V is read where it would be if no shard were padded
  padding_summed,      ///< dV is read so
  own_dropped,         ///< a rank's own contribution is missing in the reduce-scatter
  scatter_order,       ///< gradients are packed for ranks in the opposite order
  halo_overwritten,    ///< returned halo gradients replace a rank's own
  halo_half_returned,  ///< of what a halo brings back only dK is added
};

template <class T>
class TransferMutant final : public CpuEngine<T> {
 public:
  TransferMutant(TransferFault fault, const RankPlan& plan, const AttentionShape& shape,
                 const T& scale, const AttentionOptions& options)
      : CpuEngine<T>(plan, shape, scale, options), fault_(fault) {}

  using CpuEngine<T>::pack;
  using CpuEngine<T>::unpack;

  CollectiveTransfer pack(const Gather& step) override {
    const CollectiveTransfer ends = CpuEngine<T>::pack(step);
    const RowSet& own = step.shards->at(plan_.rank);
    if (fault_ == TransferFault::chunks_swapped && own.segments().size() > 1) {
      std::vector<T>& send = transfers_.at(step.token).send[0];
      for (const int64_t begin : {int64_t{0}, step.padded_rows}) {
        const auto rows = send.begin() + begin * this->kv_width();
        std::rotate(rows, rows + own.offset(1) * this->kv_width(),
                    rows + own.size() * this->kv_width());
      }
    }
    return ends;
  }

  void unpack(const Gather& step) override {
    if (fault_ == TransferFault::unpack_order) {
      reverse_shards(transfers_.at(step.token).receive[0], this->shard_size(step));
    } else if (fault_ == TransferFault::padding_read) {
      for (int r = 0; r < plan_.ranks; ++r) {
        read_without_padding(
            transfers_.at(step.token).receive[0].data() + r * this->shard_size(step),
            step.shards->at(r).size(), step.padded_rows);
      }
    }
    CpuEngine<T>::unpack(step);
    if (fault_ == TransferFault::stale_forward) {
      make_stale(step.buffer, *step.shards);
    } else if (fault_ == TransferFault::stale_backward) {
      gathered_ = step;
    }
  }

  void attend_backward(const AttendBackward& step) override {
    if (fault_ == TransferFault::stale_backward && gathered_.shards != nullptr) {
      make_stale(gathered_.buffer, *gathered_.shards);
    }
    CpuEngine<T>::attend_backward(step);
  }

  CollectiveTransfer pack(const ReduceScatter& step) override {
    const CollectiveTransfer ends = CpuEngine<T>::pack(step);
    std::vector<T>& send = transfers_.at(step.token).send[0];
    const int64_t size = this->shard_size(step);
    if (fault_ == TransferFault::own_dropped) {
      std::fill_n(send.begin() + plan_.rank * size, size, T(0));
    } else if (fault_ == TransferFault::scatter_order) {
      reverse_shards(send, size);
    }
    return ends;
  }

  void unpack(const ReduceScatter& step) override {
    if (fault_ == TransferFault::padding_summed) {
      read_without_padding(transfers_.at(step.token).receive[0].data(),
                           step.shards->at(plan_.rank).size(), step.padded_rows);
    }
    CpuEngine<T>::unpack(step);
  }

  void unpack(const ExchangeBack& step) override {
    for (size_t m = 0; m < step.receives.size(); ++m) {
      const RowSet& rows = step.receives[m].rows;
      std::vector<T>& data = transfers_.at(step.token).receive[m];
      if (fault_ == TransferFault::halo_overwritten) {
        const std::vector<T> zero(rows.size() * this->kv_width(), T(0));
        unpack_rows(rows, plan_.rows, this->kv_width(), zero.data(), d_keys_[0].data());
        unpack_rows(rows, plan_.rows, this->kv_width(), zero.data(), d_values_[0].data());
      } else if (fault_ == TransferFault::halo_half_returned) {
        std::fill(data.begin() + rows.size() * this->kv_width(), data.end(), T(0));
      }
    }
    CpuEngine<T>::unpack(step);
  }

 private:
  using CpuEngine<T>::d_keys_;
  using CpuEngine<T>::d_values_;
  using CpuEngine<T>::keys_;
  using CpuEngine<T>::plan_;
  using CpuEngine<T>::transfers_;
  using CpuEngine<T>::values_;

  /// Own rows, from the first on, in the place of all others of a gathered buffer.
  void make_stale(int buffer, const ShardMap& shards) {
    const RowSet& own = shards.at(plan_.rank);
    const int64_t width = this->kv_width();
    for (int r = 0; r < plan_.ranks && own.size() > 0; ++r) {
      std::vector<T> keys(shards[r].size() * width);
      std::vector<T> values(keys.size());
      std::vector<T> own_keys(own.size() * width);
      std::vector<T> own_values(own_keys.size());
      pack_rows(own, plan_.rows, width, keys_[0].data(), own_keys.data());
      pack_rows(own, plan_.rows, width, values_[0].data(), own_values.data());
      for (size_t i = 0; i < keys.size(); ++i) {
        keys[i] = own_keys[i % own_keys.size()];
        values[i] = own_values[i % own_values.size()];
      }
      unpack_rows(shards[r], plan_.buffers[buffer], width, keys.data(), keys_[buffer].data());
      unpack_rows(shards[r], plan_.buffers[buffer], width, values.data(), values_[buffer].data());
    }
  }

  void reverse_shards(std::vector<T>& data, int64_t size) const {
    for (int r = 0; r < plan_.ranks / 2; ++r) {
      std::swap_ranges(data.begin() + r * size, data.begin() + (r + 1) * size,
                       data.begin() + (plan_.ranks - 1 - r) * size);
    }
  }

  /// The second half of a shard of `rows` rows as it looks right behind the first.
  void read_without_padding(T* shard, int64_t rows, int64_t padded_rows) const {
    const int64_t width = this->kv_width();
    const std::vector<T> wrong(shard + rows * width, shard + 2 * rows * width);
    std::copy(wrong.begin(), wrong.end(), shard + padded_rows * width);
  }

  TransferFault fault_;
  Gather gathered_;
};

}  // namespace bdlm
