#include "optimized/cpu/backend.h"

#include <new>
#include <string>

#include "optimized/cpu/attention_backward.h"
#include "optimized/cpu/attention_forward.h"
#include "optimized/cpu/attention_tiles.h"
#include "optimized/cpu/cross_entropy.h"
#include "optimized/cpu/merge.h"
#include "optimized/cpu/step.h"
#include "reference/base/error.h"

namespace bdlm::cpu {
namespace {

struct Context {
  Formats formats;
  std::string error;
};

/// Runs f and turns what it throws into a status and a message.
template <class F>
bdlm_status guarded(void* context, const F& f) {
  std::string& error = static_cast<Context*>(context)->error;
  try {
    f(static_cast<Context*>(context)->formats);
    return BDLM_OK;
  } catch (const InputError& e) {
    error = e.what();
    return BDLM_INVALID;
  } catch (const CommunicationError& e) {
    error = e.what();
    return BDLM_COMMUNICATION;
  } catch (const std::bad_alloc&) {
    error.clear();  // "out of memory" would need some
    return BDLM_OUT_OF_MEMORY;
  } catch (const std::exception& e) {
    error = e.what();
    return BDLM_FAILED;
  } catch (...) {
    error = "an exception of unknown type";
    return BDLM_FAILED;
  }
}

template <class Args>
void require_arguments(const Args* args) {
  require(args != nullptr, "the arguments are missing");
}

bdlm_status create_context(void** context, const Formats& formats) {
  auto* made = new (std::nothrow) Context{formats, {}};
  *context = made;
  return made == nullptr ? BDLM_OUT_OF_MEMORY : BDLM_OK;
}

bdlm_status create_fp32(void** context) {
  return create_context(context, {Element::fp32, Element::fp32, Element::fp32});
}

bdlm_status create_bf16(void** context) {
  return create_context(context, {Element::bf16, Element::bf16, Element::bf16});
}

void destroy(void* context) {
  delete static_cast<Context*>(context);
}

const char* last_error(void* context) {
  return context == nullptr ? "" : static_cast<Context*>(context)->error.c_str();
}

bdlm_status attention(void* context, const bdlm_attention_args* args) {
  return guarded(context, [&](const Formats& formats) {
    require_arguments(args);
    attention_forward(read_problem(*args, formats));
  });
}

bdlm_status attention_gradients(void* context, const bdlm_attention_backward_args* args) {
  return guarded(context, [&](const Formats& formats) {
    require_arguments(args);
    attention_backward(read_problem(*args, formats));
  });
}

bdlm_status merge_states(void* context, const bdlm_merge_args* args) {
  return guarded(context, [&](const Formats&) {
    require_arguments(args);
    merge(*args);
  });
}

bdlm_status linear_cross_entropy(void* context, const bdlm_cross_entropy_args* args) {
  return guarded(context, [&](const Formats& formats) {
    require_arguments(args);
    const CrossEntropyProblem problem = read_problem(*args, formats);
    for (int64_t j = 0; j < problem.d_head.size(0); ++j) {
      problem.d_head.clear(problem.d_head.size(1), j);
    }
    cross_entropy(problem);
  });
}

bdlm_status training_step(void* context, const bdlm_step_args* args) {
  return guarded(context, [&](const Formats& formats) {
    require_arguments(args);
    step(*args, formats);
  });
}

// "chain" is the tile of attention_tiles.h.
constexpr const char* fp32_contract = R"({
  "name": "fp32",
  "input": "fp32",
  "accumulate": "fp32",
  "p": "fp32",
  "ds": "fp32",
  "o": "fp32",
  "partial_o": "fp32",
  "lse": "fp32",
  "gradient": "fp32",
  "reduce": "fp32",
  "reduce_order": "fixed",
  "chain": 64,
  "deterministic": true
}
)";
constexpr const char* bf16_contract = R"({
  "name": "bf16-storage",
  "input": "bf16",
  "accumulate": "fp32",
  "p": "fp32",
  "ds": "fp32",
  "o": "bf16",
  "partial_o": "fp32",
  "lse": "fp32",
  "gradient": "bf16",
  "reduce": "fp32",
  "reduce_order": "fixed",
  "chain": 64,
  "deterministic": true
}
)";
static_assert(query_tile == 64 && key_tile == 64 && logit_rows == 64 && logit_classes == 64 &&
              logit_chain == 64);

bdlm_backend backend(const char* name, const char* about, const char* contract,
                     bdlm_status (*create)(void**)) {
  bdlm_backend b{};
  b.version = BDLM_PLUGIN_VERSION;
  b.size = sizeof(bdlm_backend);
  b.name = name;
  b.about = about;
  b.contract = contract;
  b.device = {1, 0};
  b.create = create;
  b.destroy = destroy;
  b.last_error = last_error;
  b.attention = attention;
  b.attention_backward = attention_gradients;
  b.merge = merge_states;
  b.cross_entropy = linear_cross_entropy;
  b.step = training_step;
  return b;
}

}  // namespace
}  // namespace bdlm::cpu

extern "C" const bdlm_backend* bdlm_cpu_backend(void) {
  static const bdlm_backend b = bdlm::cpu::backend(
      "cpu", "float on x86-64-v3, OpenMP", bdlm::cpu::fp32_contract, bdlm::cpu::create_fp32);
  return &b;
}

extern "C" const bdlm_backend* bdlm_cpu_bf16_backend(void) {
  static const bdlm_backend b =
      bdlm::cpu::backend("cpu-bf16", "bf16 storage, float arithmetic on x86-64-v3, OpenMP",
                         bdlm::cpu::bf16_contract, bdlm::cpu::create_bf16);
  return &b;
}
