#include "conformance/mutants/backend_object.h"

#include <array>
#include <atomic>
#include <utility>

#include "reference/base/error.h"

namespace bdlm {
namespace {

constexpr size_t room = 256;

struct Slot {
  std::unique_ptr<BackendObject> object;
  std::string name, contract;
  bdlm_backend entries{};
};

std::array<Slot, room>& slots() {
  static std::array<Slot, room> all;
  return all;
}

/// The entries of one slot: function pointers hold no data, so each slot has its own functions.
template <size_t i>
struct Entries {
  static BackendObject& object() { return *slots()[i].object; }
  static void fill(bdlm_backend& e) {
    e.create = [](void** c) { return object().create(c); };
    e.destroy = [](void* c) { object().destroy(c); };
    e.last_error = [](void* c) { return object().last_error(c); };
    if (object().has_streams()) {
      e.create_stream = [](void* c, void** s) { return object().create_stream(c, s); };
      e.destroy_stream = [](void* c, void* s) { object().destroy_stream(c, s); };
      e.synchronize = [](void* c, void* s) { return object().synchronize(c, s); };
      e.delay = [](void* c, void* s, int64_t us) { return object().delay(c, s, us); };
    }
    e.attention_workspace = [](void* c, const bdlm_attention_args* a, uint64_t* bytes) {
      return object().attention_workspace(c, *a, bytes);
    };
    e.attention_backward_workspace = [](void* c, const bdlm_attention_backward_args* a,
                                        uint64_t* bytes) {
      return object().attention_backward_workspace(c, *a, bytes);
    };
    e.cross_entropy_workspace = [](void* c, const bdlm_cross_entropy_args* a, uint64_t* bytes) {
      return object().cross_entropy_workspace(c, *a, bytes);
    };
    e.attention = [](void* c, const bdlm_attention_args* a) { return object().attention(c, *a); };
    e.attention_backward = [](void* c, const bdlm_attention_backward_args* a) {
      return object().attention_backward(c, *a);
    };
    e.merge = [](void* c, const bdlm_merge_args* a) { return object().merge(c, *a); };
    e.cross_entropy = [](void* c, const bdlm_cross_entropy_args* a) {
      return object().cross_entropy(c, *a);
    };
    e.step = [](void* c, const bdlm_step_args* a) { return object().step(c, *a); };
  }
};

template <size_t... i>
void fill(size_t slot, bdlm_backend& entries, std::index_sequence<i...>) {
  ((i == slot ? Entries<i>::fill(entries) : void()), ...);
}

}  // namespace

const bdlm_backend& entries_of(const std::string& name, std::unique_ptr<BackendObject> object) {
  static std::atomic<size_t> used = 0;
  const size_t mine = used++;
  require<LogicError>(mine < room, "more than ", room, " backends are made of objects");
  Slot& slot = slots()[mine];
  slot.object = std::move(object);
  slot.name = name;
  slot.contract = slot.object->contract();
  slot.entries.version = BDLM_PLUGIN_VERSION;
  slot.entries.size = sizeof(bdlm_backend);
  slot.entries.name = slot.name.c_str();
  slot.entries.about = "planted";
  slot.entries.contract = slot.contract.c_str();
  slot.entries.device = {1, 0};
  fill(mine, slot.entries, std::make_index_sequence<room>());
  return slot.entries;
}

bdlm_status BackendObject::create_stream(void* /*context*/, void** /*stream*/) {
  return BDLM_UNSUPPORTED;
}
void BackendObject::destroy_stream(void* /*context*/, void* /*stream*/) {}
bdlm_status BackendObject::synchronize(void* /*context*/, void* /*stream*/) {
  return BDLM_OK;
}
bdlm_status BackendObject::delay(void* /*context*/, void* /*stream*/, int64_t /*microseconds*/) {
  return BDLM_OK;
}
bdlm_status BackendObject::attention_workspace(void* /*context*/,
                                               const bdlm_attention_args& /*args*/,
                                               uint64_t* bytes) {
  *bytes = 0;
  return BDLM_OK;
}
bdlm_status BackendObject::attention_backward_workspace(
    void* /*context*/, const bdlm_attention_backward_args& /*args*/, uint64_t* bytes) {
  *bytes = 0;
  return BDLM_OK;
}
bdlm_status BackendObject::cross_entropy_workspace(void* /*context*/,
                                                   const bdlm_cross_entropy_args& /*args*/,
                                                   uint64_t* bytes) {
  *bytes = 0;
  return BDLM_OK;
}
bdlm_status BackendObject::attention(void* /*context*/, const bdlm_attention_args& /*args*/) {
  return BDLM_UNSUPPORTED;
}
bdlm_status BackendObject::attention_backward(void* /*context*/,
                                              const bdlm_attention_backward_args& /*args*/) {
  return BDLM_UNSUPPORTED;
}
bdlm_status BackendObject::merge(void* /*context*/, const bdlm_merge_args& /*args*/) {
  return BDLM_UNSUPPORTED;
}
bdlm_status BackendObject::cross_entropy(void* /*context*/,
                                         const bdlm_cross_entropy_args& /*args*/) {
  return BDLM_UNSUPPORTED;
}
bdlm_status BackendObject::step(void* /*context*/, const bdlm_step_args& /*args*/) {
  return BDLM_UNSUPPORTED;
}

bdlm_status ForwardingBackend::create(void** context) {
  *context = nullptr;
  return right_.create == nullptr ? BDLM_OK : right_.create(context);
}
void ForwardingBackend::destroy(void* context) {
  if (right_.destroy != nullptr) {
    right_.destroy(context);
  }
}
bdlm_status ForwardingBackend::create_stream(void* context, void** stream) {
  return right_.create_stream(context, stream);
}
void ForwardingBackend::destroy_stream(void* context, void* stream) {
  right_.destroy_stream(context, stream);
}
bdlm_status ForwardingBackend::synchronize(void* context, void* stream) {
  return right_.synchronize(context, stream);
}
bdlm_status ForwardingBackend::delay(void* context, void* stream, int64_t microseconds) {
  return right_.delay(context, stream, microseconds);
}
bdlm_status ForwardingBackend::attention_workspace(void* context, const bdlm_attention_args& args,
                                                   uint64_t* bytes) {
  *bytes = 0;
  return right_.attention_workspace == nullptr ? BDLM_OK
                                               : right_.attention_workspace(context, &args, bytes);
}
bdlm_status ForwardingBackend::attention_backward_workspace(
    void* context, const bdlm_attention_backward_args& args, uint64_t* bytes) {
  *bytes = 0;
  return right_.attention_backward_workspace == nullptr
             ? BDLM_OK
             : right_.attention_backward_workspace(context, &args, bytes);
}
bdlm_status ForwardingBackend::cross_entropy_workspace(void* context,
                                                       const bdlm_cross_entropy_args& args,
                                                       uint64_t* bytes) {
  *bytes = 0;
  return right_.cross_entropy_workspace == nullptr
             ? BDLM_OK
             : right_.cross_entropy_workspace(context, &args, bytes);
}
bdlm_status ForwardingBackend::attention(void* context, const bdlm_attention_args& args) {
  return right_.attention(context, &args);
}
bdlm_status ForwardingBackend::attention_backward(void* context,
                                                  const bdlm_attention_backward_args& args) {
  return right_.attention_backward(context, &args);
}
bdlm_status ForwardingBackend::merge(void* context, const bdlm_merge_args& args) {
  return right_.merge(context, &args);
}
bdlm_status ForwardingBackend::cross_entropy(void* context, const bdlm_cross_entropy_args& args) {
  return right_.cross_entropy(context, &args);
}
bdlm_status ForwardingBackend::step(void* context, const bdlm_step_args& args) {
  return right_.step == nullptr ? BDLM_UNSUPPORTED : right_.step(context, &args);
}

}  // namespace bdlm
