#pragma once
// A backend as an object, so that planted faults may hold data and share what is right.

#include <memory>
#include <string>

#include "conformance/plugin/bdlm_plugin.h"

namespace bdlm {

/// The entries of a backend on the host. What is not overridden is UNSUPPORTED.
class BackendObject {
 public:
  BackendObject() = default;
  virtual ~BackendObject() = default;
  BackendObject(const BackendObject&) = delete;
  BackendObject& operator=(const BackendObject&) = delete;

  /// The precision contract as JSON.
  virtual std::string contract() const = 0;
  /// Whether streams are made by `create_stream`; else work is synchronous.
  virtual bool has_streams() const { return false; }

  virtual bdlm_status create(void** context) {
    *context = nullptr;
    return BDLM_OK;
  }
  virtual void destroy(void* /*context*/) {}
  virtual const char* last_error(void* /*context*/) { return "planted"; }

  virtual bdlm_status create_stream(void* context, void** stream);
  virtual void destroy_stream(void* context, void* stream);
  virtual bdlm_status synchronize(void* context, void* stream);
  virtual bdlm_status delay(void* context, void* stream, int64_t microseconds);

  virtual bdlm_status attention_workspace(void* context, const bdlm_attention_args& args,
                                          uint64_t* bytes);
  virtual bdlm_status attention_backward_workspace(void* context,
                                                   const bdlm_attention_backward_args& args,
                                                   uint64_t* bytes);
  virtual bdlm_status cross_entropy_workspace(void* context, const bdlm_cross_entropy_args& args,
                                              uint64_t* bytes);

  virtual bdlm_status attention(void* context, const bdlm_attention_args& args);
  virtual bdlm_status attention_backward(void* context, const bdlm_attention_backward_args& args);
  virtual bdlm_status merge(void* context, const bdlm_merge_args& args);
  virtual bdlm_status cross_entropy(void* context, const bdlm_cross_entropy_args& args);
  virtual bdlm_status step(void* context, const bdlm_step_args& args);
};

/// A struct of entries that call the object; both stay for the rest of the process. There is room
/// for 256 of them. May be called by several threads at once.
const bdlm_backend& entries_of(const std::string& name, std::unique_ptr<BackendObject> object);

/// Calls another backend's entries: the base of faults that spoil a right one from outside.
class ForwardingBackend : public BackendObject {
 public:
  explicit ForwardingBackend(const bdlm_backend& right) : right_(right) {}

  std::string contract() const override { return right_.contract; }
  bool has_streams() const override { return right_.create_stream != nullptr; }
  bdlm_status create(void** context) override;
  void destroy(void* context) override;
  const char* last_error(void* context) override { return right_.last_error(context); }
  bdlm_status create_stream(void* context, void** stream) override;
  void destroy_stream(void* context, void* stream) override;
  bdlm_status synchronize(void* context, void* stream) override;
  bdlm_status delay(void* context, void* stream, int64_t microseconds) override;
  bdlm_status attention_workspace(void* context, const bdlm_attention_args& args,
                                  uint64_t* bytes) override;
  bdlm_status attention_backward_workspace(void* context, const bdlm_attention_backward_args& args,
                                           uint64_t* bytes) override;
  bdlm_status cross_entropy_workspace(void* context, const bdlm_cross_entropy_args& args,
                                      uint64_t* bytes) override;
  bdlm_status attention(void* context, const bdlm_attention_args& args) override;
  bdlm_status attention_backward(void* context, const bdlm_attention_backward_args& args) override;
  bdlm_status merge(void* context, const bdlm_merge_args& args) override;
  bdlm_status cross_entropy(void* context, const bdlm_cross_entropy_args& args) override;
  bdlm_status step(void* context, const bdlm_step_args& args) override;

 protected:
  const bdlm_backend& right_;
};

}  // namespace bdlm
