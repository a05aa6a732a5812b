#include "conformance/worker/fault_handler.h"

#include <signal.h>
#include <ucontext.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstring>

#include "conformance/plugin/tensors.h"

namespace bdlm {
namespace {

volatile sig_atomic_t results_descriptor = -1;

// A stack of the handler's own, for a main thread that has used up its own.
alignas(16) std::array<char, 1 << 16> handler_stack;

/// Appends text, as far as there is room; everything here has to be async-signal-safe.
void append(char* line, size_t size, const char* text) {
  const size_t at = strnlen(line, size - 1);
  const size_t count = strnlen(text, size - 1 - at);
  std::memcpy(line + at, text, count);
  line[at + count] = '\0';
}

void append_address(char* line, size_t size, const void* address) {
  auto rest = reinterpret_cast<uintptr_t>(address);
  char digits[2 + 2 * sizeof rest + 1];
  char* at = digits + sizeof digits;
  *--at = '\0';
  do {
    *--at = "0123456789abcdef"[rest % 16];
    rest /= 16;
  } while (rest > 0);
  *--at = 'x';
  *--at = '0';
  append(line, size, at);
}

Access access_of(const void* context) {
#if defined(__x86_64__)
  // Bit 1 of the page fault's error code: a write.
  const auto* machine = static_cast<const ucontext_t*>(context);
  return (machine->uc_mcontext.gregs[REG_ERR] & 2) != 0 ? Access::write : Access::read;
#else
  static_cast<void>(context);
  return Access::unknown;
#endif
}

void on_fault(int signal, siginfo_t* info, void* context) {
  char did[200] = "";
  // A signal that a process has sent has no address.
  const bool sent = info->si_code <= 0;
  if (!sent) {
    CallTensors::describe_address(info->si_addr, access_of(context), did, sizeof did);
  }
  const bool guard = did[0] != '\0';
  if (!guard && !sent) {
    append(did, sizeof did, access_of(context) == Access::write ? "wrote to" : "read");
    append(did, sizeof did, " address ");
    append_address(did, sizeof did, info->si_addr);
    append(did, sizeof did, ", which is no tensor's");
  }
  if (did[0] != '\0') {
    // A line that another thread had begun ends here.
    char line[300] = "\n{\"fault\": \"";
    append(line, sizeof line, did);
    append(line, sizeof line, guard ? "\", \"guard\": true}\n" : "\", \"guard\": false}\n");
    const ssize_t ignored = write(results_descriptor, line, strnlen(line, sizeof line));
    static_cast<void>(ignored);
  }
  ::signal(signal, SIG_DFL);
  raise(signal);
}

}  // namespace

void report_faults_to(int results) {
  results_descriptor = results;
  stack_t stack{};
  stack.ss_sp = handler_stack.data();
  stack.ss_size = handler_stack.size();
  sigaltstack(&stack, nullptr);
  struct sigaction action {};
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
  sigaction(SIGSEGV, &action, nullptr);
  sigaction(SIGBUS, &action, nullptr);
}

}  // namespace bdlm
