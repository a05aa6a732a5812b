#pragma once
// A signal handler that says what an access was to, before the process ends.

namespace bdlm {

/// From here on SIGSEGV and SIGBUS write a WorkerFault line to `results`; then the process dies of
/// the signal.
void report_faults_to(int results);

}  // namespace bdlm
