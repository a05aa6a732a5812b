#include "bench/attention_problem_on_device.h"

#include <cmath>

#include "reference/base/philox.h"

namespace bdlm {
namespace {

std::unique_ptr<DeviceMemory> random_bf16(const Plugin& plugin, int64_t count, uint64_t seed,
                                          uint32_t tensor) {
  std::vector<uint16_t> bits(count);
  const Philox random(seed, tensor);
#pragma omp parallel for schedule(static)
  for (int64_t i = 0; i < count; ++i) {
    const auto x = static_cast<float>(round_to(random.gaussian(i), Dtype::bf16));
    uint32_t word = 0;
    std::memcpy(&word, &x, 4);
    bits[i] = static_cast<uint16_t>(word >> 16);
  }
  auto memory = std::make_unique<DeviceMemory>(plugin, 2 * count, false);
  plugin.check(plugin->copy_in(plugin.context(), memory->get(), bits.data(), 2 * count));
  return memory;
}

}  // namespace

DeviceInputs::DeviceInputs(const Plugin& plugin, const BenchShape& shape, uint64_t seed) {
  const int64_t q_count = shape.rows() * shape.q_heads * shape.head_dim;
  const int64_t k_count = shape.length * shape.kv_heads * shape.head_dim;
  q_ = random_bf16(plugin, q_count, seed, 0);
  d_o_ = random_bf16(plugin, q_count, seed, 1);
  for (int64_t s = 0; s < shape.streams(); ++s) {
    k_[s] = random_bf16(plugin, k_count, seed, static_cast<uint32_t>(2 + 2 * s));
    v_[s] = random_bf16(plugin, k_count, seed, static_cast<uint32_t>(3 + 2 * s));
  }
}

bdlm_tensor& DeviceCalls::input(const DeviceMemory& memory, int64_t rows, int64_t heads,
                                int64_t all_heads) {
  auto view = std::make_unique<View>();
  view->shape = {rows, heads, shape_.head_dim};
  view->strides = {all_heads * shape_.head_dim, shape_.head_dim, 1};
  view->tensor = {memory.get(),       plugin_->device,      3, dlpack_dtype(Dtype::bf16),
                  view->shape.data(), view->strides.data(), 0};
  views_.push_back(std::move(view));
  return views_.back()->tensor;
}

bdlm_tensor& DeviceCalls::output(const char* name, Dtype dtype, int64_t rows, int64_t heads,
                                 bool flat) {
  auto view = std::make_unique<View>();
  const int64_t width = flat ? 1 : shape_.head_dim;
  view->shape = {rows, heads, width};
  view->strides = {heads * width, width, 1};
  view->name = name;
  view->dtype = dtype;
  view->memory =
      std::make_unique<DeviceMemory>(plugin_, rows * heads * width * size_of(dtype), false);
  view->tensor = {view->memory->get(),
                  plugin_->device,
                  flat ? 2 : 3,
                  dlpack_dtype(dtype),
                  view->shape.data(),
                  view->strides.data(),
                  0};
  views_.push_back(std::move(view));
  return views_.back()->tensor;
}

DeviceCalls::DeviceCalls(const Plugin& plugin, const BenchShape& shape, const DeviceInputs& inputs,
                         const std::vector<std::vector<int64_t>>& intervals, Heads heads,
                         Dtype real, Dtype lse)
    : plugin_(plugin), shape_(shape) {
  const bool all = heads == Heads::all;
  const int64_t q_heads = all ? shape.q_heads : shape.q_heads / shape.kv_heads;
  const int64_t kv_heads = all ? shape.kv_heads : 1;
  for (int64_t s = 0; s < shape.streams(); ++s) {
    keys_.push_back({&input(inputs.k(s), shape.length, kv_heads, shape.kv_heads),
                     &input(inputs.v(s), shape.length, kv_heads, shape.kv_heads), 0, nullptr,
                     intervals[s].data(), &output("dK", real, shape.length, kv_heads, false),
                     &output("dV", real, shape.length, kv_heads, false)});
  }
  forward_.size = sizeof(forward_);
  forward_.scale = 1 / std::sqrt(static_cast<double>(shape.head_dim));
  forward_.q = &input(inputs.q(), shape.rows(), q_heads, shape.q_heads);
  forward_.key_set_count = shape.streams();
  forward_.key_sets = keys_.data();
  forward_.o = &output("O", real, shape.rows(), q_heads, false);
  forward_.lse = &output("LSE", lse, shape.rows(), q_heads, true);
  backward_.size = sizeof(backward_);
  backward_.scale = forward_.scale;
  backward_.q = forward_.q;
  backward_.key_set_count = forward_.key_set_count;
  backward_.key_sets = keys_.data();
  backward_.o = forward_.o;
  backward_.lse = forward_.lse;
  backward_.d_o = &input(inputs.d_o(), shape.rows(), q_heads, shape.q_heads);
  backward_.dq = &output("dQ", real, shape.rows(), q_heads, false);
  uint64_t bytes = 0;
  uint64_t backward_bytes = 0;
  plugin.check(plugin->attention_workspace(plugin.context(), &forward_, &bytes));
  plugin.check(plugin->attention_backward_workspace(plugin.context(), &backward_, &backward_bytes));
  bytes = std::max(bytes, backward_bytes);
  workspace_ = std::make_unique<DeviceMemory>(plugin, bytes, false);
  forward_.workspace = backward_.workspace = workspace_->get();
  forward_.workspace_bytes = backward_.workspace_bytes = bytes;
}

void DeviceCalls::forward() {
  plugin_.check(plugin_->attention(plugin_.context(), &forward_));
}

void DeviceCalls::backward() {
  plugin_.check(plugin_->attention_backward(plugin_.context(), &backward_));
}

std::vector<double> DeviceCalls::read(const bdlm_tensor& tensor) const {
  int64_t count = 1;
  for (int axis = 0; axis < tensor.ndim; ++axis) {
    count *= tensor.shape[axis];
  }
  std::vector<double> values(count);
  std::vector<unsigned char> raw(count * tensor.dtype.bits / 8);
  plugin_.check(plugin_->copy_out(plugin_.context(), raw.data(), tensor.data, raw.size()));
#pragma omp parallel for schedule(static)
  for (int64_t i = 0; i < count; ++i) {
    if (tensor.dtype.bits == 16) {
      uint16_t high = 0;
      std::memcpy(&high, &raw[2 * i], 2);
      const uint32_t word = uint32_t{high} << 16;
      float x = 0;
      std::memcpy(&x, &word, 4);
      values[i] = x;
    } else if (tensor.dtype.bits == 32) {
      float x = 0;
      std::memcpy(&x, &raw[4 * i], 4);
      values[i] = x;
    } else {
      std::memcpy(&values[i], &raw[8 * i], 8);
    }
  }
  return values;
}

std::vector<NamedOutput> DeviceCalls::outputs() const {
  std::vector<NamedOutput> out;
  for (const auto& view : views_) {
    if (!view->name.empty()) {
      out.push_back({view->name, read(view->tensor), {}, {}});
    }
  }
  return out;
}

std::vector<NamedOutput> DeviceCalls::bounded_outputs(const bdlm_error_model& model) {
  const auto workspace_of =
      plugin_.symbol<decltype(bdlm_attention_bounds_workspace)>("bdlm_attention_bounds_workspace");
  const auto entry = plugin_.symbol<decltype(bdlm_attention_bounds)>("bdlm_attention_bounds");
  require(workspace_of != nullptr && entry != nullptr, plugin_->name, " offers no bounds");
  bdlm_attention_bounds_args args{};
  args.size = sizeof(args);
  args.call = &backward_;
  args.model = &model;
  const auto like = [&](const bdlm_tensor& tensor) {
    return &output("", Dtype::f64, tensor.shape[0], tensor.shape[1], tensor.ndim == 2);
  };
  // In the order of outputs().
  std::vector<std::pair<bdlm_tensor*, bdlm_tensor*>> bounds;
  const auto make = [&](const bdlm_tensor& tensor, bdlm_tensor*& bound, bdlm_tensor*& deviation) {
    bound = like(tensor);
    deviation = like(tensor);
    bounds.emplace_back(bound, deviation);
  };
  for (int64_t s = 0; s < shape_.streams(); ++s) {
    make(*keys_[s].dk, args.dk_bound[s], args.dk_deviation[s]);
    make(*keys_[s].dv, args.dv_bound[s], args.dv_deviation[s]);
  }
  make(*forward_.o, args.o_bound, args.o_deviation);
  make(*forward_.lse, args.lse_bound, args.lse_deviation);
  make(*backward_.dq, args.dq_bound, args.dq_deviation);
  uint64_t bytes = 0;
  plugin_.check(workspace_of(plugin_.context(), &args, &bytes));
  const DeviceMemory workspace(plugin_, bytes, false);
  args.workspace = workspace.get();
  args.workspace_bytes = bytes;
  plugin_.check(entry(plugin_.context(), &args));
  synchronize();
  std::vector<NamedOutput> out = outputs();
  for (size_t i = 0; i < out.size(); ++i) {
    out[i].bound = read(*bounds[i].first);
    out[i].deviation = read(*bounds[i].second);
  }
  return out;
}

}  // namespace bdlm
