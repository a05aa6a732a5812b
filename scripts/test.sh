#!/usr/bin/env bash
# Builds everything and runs every check of the repository, as CI does.
#
#   scripts/test.sh [--no-install] [--quick]
#
#   --no-install   install nothing (no root needed)
#   --quick        without the builds under the sanitizers
#
# The last line is "N passed, N failed": the tests of every CTest run, and one more failed for each
# other phase that failed. Exit status: 0 where nothing failed, 1 otherwise, 2 for a wrong argument.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

# The tests that also run under the address and undefined-behaviour sanitizers: all but the planted
# faults, which run the same code again and again, and what needs MPI or the program itself.
address_tests=(base_tests architecture_tests layout_tests schedule_tests math_tests objective_tests
  model_tests communicator_tests step_tests cpu_tests report_tests judge_tests plugin_tests
  coverage_tests golden_tests doors_tests worker_tests)
fuzz_tests=(conformance/fuzz/*_fuzz.cc)
fuzz_tests=("${fuzz_tests[@]##*/}")
for reader in "${fuzz_tests[@]%_fuzz.cc}"; do
  address_tests+=("fuzz_$reader")
done
# The tests whose code runs several threads over shared memory: these also run under ThreadSanitizer.
# OpenMP stays off there, because GCC's OpenMP library is not instrumented.
thread_tests=(communicator_tests)
# Seconds of random mutations that each reader of foreign files gets under the sanitizers.
fuzz_seconds=10
# Seconds that clang-tidy may take in all; scripts/lint.sh names the files it then leaves out.
export BDLM_TIDY_SECONDS=${BDLM_TIDY_SECONDS:-240}

quick=no
install_arguments=(--lint)
for argument in "$@"; do
  case $argument in
    --no-install) install_arguments+=(--no-install) ;;
    --quick) quick=yes ;;
    *) echo "test.sh: unknown argument '$argument'; allowed: --no-install --quick" >&2; exit 2 ;;
  esac
done

export CLICOLOR=0 NO_COLOR=1 GTEST_COLOR=no GCC_COLORS=
# Two tests run at a time, each with few threads that sleep while they wait.
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-2} OMP_WAIT_POLICY=${OMP_WAIT_POLICY:-passive}
# Open MPI on one machine that may have fewer cores than the tests have ranks, in a container that
# forbids one process to read another's memory.
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none
export OMPI_MCA_btl_vader_single_copy_mechanism=none
if [[ $(id -u) -eq 0 ]]; then
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
fi

passed=0
failed=0
skipped=0
failed_phases=()
runner=()  # a command before ctest

# phase NAME COMMAND...: runs a command, says how long it took, remembers whether it failed.
phase() {
  local name=$1 start=$SECONDS status=0
  shift
  echo "== $name"
  "$@" || status=$?
  echo "== $name: $((SECONDS - start)) s$( ((status == 0)) || echo ", FAILED (status $status)")"
  if ((status != 0)); then
    failed_phases+=("$name")
  fi
  return "$status"
}

# other NAME COMMAND...: a phase that is no CTest run; failing counts as one failed.
other() {
  phase "$@" || { failed=$((failed + 1)); return 1; }
}

# run_tests FOLDER [CTEST ARGUMENT...]: adds to the counts. A run without any test is a failure.
run_tests() {
  local folder=$1 report=$root/$1/ctest.xml status=0 tests failures not_run
  shift
  rm -f "$report"
  "${runner[@]}" ctest --test-dir "$folder" --parallel 2 --output-on-failure --no-tests=error \
    --output-junit "$report" "$@" || status=$?
  if [[ ! -f $report ]]; then
    failed=$((failed + 1))
    return 1
  fi
  tests=$(attribute tests "$report")
  failures=$(attribute failures "$report")
  not_run=$(($(attribute skipped "$report") + $(attribute disabled "$report")))
  passed=$((passed + tests - failures - not_run))
  failed=$((failed + failures))
  skipped=$((skipped + not_run))
  if ((status != 0 && failures == 0)); then
    failed=$((failed + 1))
  fi
  return "$status"
}

# attribute NAME FILE: a number of the first <testsuite> of a JUnit file.
attribute() {
  tr '\n\t' '  ' <"$2" | sed 's/<testcase.*//; s/.*<testsuite//' |
    sed -n "s/.* $1=\"\([0-9]*\)\".*/\1/p" | grep . || echo 0
}

configure_and_build() {  # FOLDER [CMAKE ARGUMENT...]
  configure "$@" && build "$1"
}

names() {  # NAME...: a pattern of CTest for exactly these tests
  echo "^($(IFS='|'; echo "$*"))\$"
}

test_build() {
  other "configure and build" configure_and_build build || return 0
  phase "tests" run_tests build || true
}

# LeakSanitizer sees Open MPI's own leaks as ours: MPI stays off. Under sanitizers GCC warns of
# uninitialised values where there are none; the plain build has already made warnings errors.
sanitized=(-DBDLM_MPI=OFF -DBDLM_BENCH=OFF -DBDLM_CLI=OFF -DBDLM_CUDA=OFF -DBDLM_WERROR=OFF)

build_for_addresses() {
  configure build-asan -DBDLM_SANITIZE=address,undefined -DBDLM_OPTIMIZATION=-O1 \
    "${sanitized[@]}" && build build-asan "${address_tests[@]}"
}

test_addresses() {
  other "address and undefined-behaviour sanitizers: build" build_for_addresses || return 0
  export ASAN_OPTIONS=detect_leaks=1:strict_string_checks=1 UBSAN_OPTIONS=print_stacktrace=1
  phase "address and undefined-behaviour sanitizers: tests" run_tests build-asan \
    --tests-regex "$(names "${address_tests[@]}")" || true
  other "fuzz the readers" fuzz build-asan || true
}

fuzz() {  # FOLDER
  # One on each core. What a program says stays together.
  # shellcheck disable=SC2016
  printf '%s\n' "${fuzz_tests[@]%_fuzz.cc}" | xargs -n 1 -P "$(nproc)" bash -c '
    status=0
    output=$("$1/fuzz/fuzz_$3" --seconds "$2" --seed "$RANDOM" --findings "$1/fuzz" \
      "conformance/fuzz/corpus/$3" 2>&1) || status=$?
    printf "%s\n" "$output"
    exit $((status != 0))' bash "$1" "$fuzz_seconds"
}

build_for_threads() {
  configure build-tsan -DBDLM_SANITIZE=thread -DBDLM_OPTIMIZATION=-O1 -DBDLM_OPENMP=OFF \
    "${sanitized[@]}" && build build-tsan "${thread_tests[@]}"
}

test_threads() {
  other "thread sanitizer: build" build_for_threads || return 0
  export TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1
  # GCC 12's ThreadSanitizer cannot start where the kernel randomises addresses over more bits than
  # it knows; without randomisation it always can.
  if setarch "$(uname -m)" -R true 2>/dev/null; then
    runner=(setarch "$(uname -m)" -R)
  fi
  phase "thread sanitizer: tests" run_tests build-tsan \
    --tests-regex "$(names "${thread_tests[@]}")" || true
  runner=()
}

other "install" scripts/install.sh "${install_arguments[@]}" || true
test_build
if [[ $quick == no ]]; then
  test_addresses
  test_threads
fi
if [[ -x build/bdlm ]]; then
  other "verify" timeout 600 build/bdlm verify --level quick || true
  other "verify the CPU backend" timeout 600 build/bdlm verify --backend cpu --level quick \
    --strict || true
  other "mutants" timeout 600 build/bdlm mutate || true
else
  failed=$((failed + 1))
  failed_phases+=("verify: there is no build/bdlm")
fi
other "lint" scripts/lint.sh || true

echo "total: $SECONDS s"
if ((skipped > 0)); then
  echo "tests that did not run: $skipped"
fi
if ((${#failed_phases[@]} > 0)); then
  printf 'failed: %s\n' "${failed_phases[@]}"
fi
echo "$passed passed, $failed failed"
((failed == 0))
