// A plug-in for tests: the example's right computation, and faults around it that are chosen by
// name in the environment.
//
//   BDLM_FAULT=NAME          the fault strikes in every call of attention
//   BDLM_FAULT=NAME@D,...    only where the head dimension is D; several faults are possible
//   BDLM_FAULT_DEVICE=1      tensors live on a "device" that is host memory of the plug-in's own
#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <stdexcept>
#include <string>

#define bdlm_plugin example_plugin
#include "conformance/plugin/example/attention_example.cc"  // NOLINT(bugprone-suspicious-include)
#undef bdlm_plugin

namespace {

std::string message;
int64_t late_interval;
const int64_t* late = nullptr;

/// Whether the named fault is to strike where the head dimension is `d`.
bool strikes(const char* fault, int64_t d) {
  const char* text = std::getenv("BDLM_FAULT");
  const std::string all = std::string(text == nullptr ? "" : text) + ",";
  for (size_t begin = 0; begin < all.size();) {
    const size_t end = all.find(',', begin);
    const std::string entry = all.substr(begin, end - begin);
    if (entry == fault || entry == std::string(fault) + "@" + std::to_string(d)) {
      return true;
    }
    begin = end + 1;
  }
  return false;
}

/// A tensor's elements as floats: its first, its last, and what it has between rows.
struct Elements {
  View view;
  int64_t d;
  explicit Elements(const bdlm_tensor* t) : view(t), d(view.channels) {}
  float* first() const { return view.at(0); }
  float* end() const { return view.at(view.rows * view.heads - 1) + d; }
};

bdlm_status faulty_attention(void* context, const bdlm_attention_args* args) {
  const Elements q(args->q), o(args->o), k(args->key_sets[0].k);
  const int64_t d = q.d;
  // Without a return, faults come before the right computation.
  if (strikes("abort", d)) {
    std::abort();
  }
  if (strikes("exit", d)) {
    _exit(3);
  }
  if (strikes("null", d)) {
    volatile uintptr_t nowhere = 16;
    *reinterpret_cast<volatile int*>(nowhere) = 1;  // NOLINT(performance-no-int-to-ptr)
  }
  if (strikes("hang", d)) {
    while (true) {
      pause();
    }
  }
  if (strikes("throw", d)) {
    throw std::runtime_error("thrown by the plug-in");
  }
  if (strikes("close-files", d)) {
    for (int file = 3; file < 256; ++file) {
      close(file);
    }
  }
  if (strikes("print", d)) {
    std::printf("{\"id\": \"not a result\"}\nhalf a line");
    std::fflush(stdout);
  }
  if (strikes("error", d)) {
    message = "out of\nluck";
    return BDLM_FAILED;
  }
  if (strikes("unknown-status", d)) {
    return static_cast<bdlm_status>(17);
  }
  if (strikes("refuse", d)) {
    message = "no such shape";
    return BDLM_UNSUPPORTED;
  }
  if (strikes("refuse-and-write", d)) {
    *o.first() = 1;
    return BDLM_UNSUPPORTED;
  }
  float kept = 0;
  const bool unwritten = strikes("leave-unwritten", d);
  if (unwritten) {
    std::memcpy(&kept, o.end() - 1, sizeof kept);
  }
  attention(context, args);
  if (unwritten) {
    std::memcpy(o.end() - 1, &kept, sizeof kept);
  }
  if (strikes("write-input", d)) {
    *q.first() = -*q.first();
  }
  if (strikes("write-array", d)) {
    const_cast<int64_t*>(args->key_sets[0].intervals)[1] = 0;
  }
  if (strikes("write-behind", d)) {
    o.end()[0] = 1;
  }
  if (strikes("write-far-behind", d)) {
    o.end()[64] = 1;
  }
  if (strikes("write-before", d)) {
    o.first()[-1] = 1;
  }
  if (strikes("write-padding", d)) {
    o.first()[o.view.heads * d] = 1;
  }
  if (strikes("write-behind-workspace", d)) {
    static_cast<char*>(args->workspace)[args->workspace_bytes] = 1;
  }
  if (strikes("read-far-behind", d)) {
    *o.first() += *static_cast<volatile float*>(k.end() + 64);
  }
  if (strikes("scale", d)) {
    for (int64_t i = 0; i < o.view.rows * o.view.heads; ++i) {
      add(0.01f, o.view.at(i), o.view.at(i), d);
    }
  }
  if (strikes("late-array", d)) {
    late = args->key_sets[0].intervals;
  }
  return BDLM_OK;
}

bdlm_status workspace(void*, const bdlm_attention_args* args, uint64_t* bytes) {
  if (strikes("workspace-error", View(args->q).channels)) {
    message = "no workspace";
    return BDLM_OUT_OF_MEMORY;
  }
  *bytes = strikes("huge-workspace", View(args->q).channels) ? ~uint64_t{0} : 100;
  return BDLM_OK;
}

const char* faulty_last_error(void*) {
  return message.c_str();
}

// A device of its own.
std::atomic<int64_t> blocks{0};

bdlm_status allocate(void*, uint64_t bytes, void** memory) {
  if (strikes("out-of-memory", 0)) {
    message = "the device is full";
    return BDLM_OUT_OF_MEMORY;
  }
  *memory = std::malloc(bytes);
  if (*memory == nullptr) {
    message = "malloc gives no more";
    return BDLM_OUT_OF_MEMORY;
  }
  ++blocks;
  return BDLM_OK;
}
void release(void*, void* memory) {
  std::free(memory);
  --blocks;
}
bdlm_status copy_in(void*, void* to, const void* from, uint64_t bytes) {
  std::memcpy(to, from, bytes);
  return BDLM_OK;
}
bdlm_status copy_out(void*, void* to, const void* from, uint64_t bytes) {
  std::memcpy(to, from, bytes);
  return BDLM_OK;
}
bdlm_status create_stream(void*, void** stream) {
  *stream = &late_interval;
  return BDLM_OK;
}
void destroy_stream(void*, void*) {}
bdlm_status synchronize(void*, void*) {
  if (late != nullptr) {
    late_interval = *static_cast<const volatile int64_t*>(late);
  }
  return BDLM_OK;
}
bdlm_status delay(void*, void*, int64_t) {
  return BDLM_OK;
}

}  // namespace

/// Blocks of device memory that have not been given back.
extern "C" __attribute__((visibility("default"))) int64_t faulty_blocks(void) {
  return blocks;
}

extern "C" const bdlm_backend* bdlm_plugin(void) {
  if (strikes("crash-at-load", 0)) {
    std::abort();
  }
  static bdlm_backend host;
  static bdlm_backend device;
  host = *example_plugin();
  host.name = "faulty";
  host.last_error = faulty_last_error;
  host.attention = faulty_attention;
  host.attention_workspace = workspace;
  if (strikes("null-entry", 0)) {
    host.attention = nullptr;
  }
  if (strikes("bad-version", 0)) {
    host.version = 1000;
  }
  if (strikes("small-struct", 0)) {
    host.size = 8;
  }
  if (strikes("bad-name", 0)) {
    host.name = "two words";
  }
  if (strikes("bad-contract", 0)) {
    host.contract = "{\"name\": \"x\"";
  }
  if (strikes("half-memory", 0)) {
    host.allocate = allocate;
  }
  if (strikes("unknown-device", 0)) {
    host.device.type = 99;
  }
  if (strikes("create-fails", 0)) {
    host.create = [](void**) {
      message = "no device";
      return BDLM_FAILED;
    };
    host.destroy = [](void*) {};
  }
  if (std::getenv("BDLM_FAULT_DEVICE") == nullptr) {
    return &host;
  }
  device = host;
  device.device = {2, 0};
  device.allocate = allocate;
  device.release = release;
  device.copy_in = copy_in;
  device.copy_out = copy_out;
  device.create_stream = create_stream;
  device.destroy_stream = destroy_stream;
  device.synchronize = synchronize;
  device.delay = delay;
  return &device;
}
