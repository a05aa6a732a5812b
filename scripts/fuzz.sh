#!/usr/bin/env bash
# Fuzzes every reader of foreign files under the address and undefined-behaviour sanitizers.
#
#   scripts/fuzz.sh [--standalone] [SECONDS]
#
#   SECONDS        for each reader, 10 unless given
#   --standalone   with the compiler that CMake finds and without libFuzzer, as where Clang is
#                  missing
#
# Corpora are in conformance/fuzz/corpus. libFuzzer adds what it learns to build-fuzz/corpus, and the
# inputs of findings are kept in build-fuzz*/findings. Exit status: 0 where nothing was found, 1
# otherwise, 2 for a wrong argument.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

seconds=10
standalone=no
for argument in "$@"; do
  if [[ $argument == --standalone ]]; then
    standalone=yes
  elif [[ $argument =~ ^[0-9]{1,6}$ ]]; then
    seconds=$argument
  else
    echo "fuzz.sh: wrong argument '$argument'; allowed: [--standalone] [SECONDS]" >&2
    exit 2
  fi
done

# Some packages of Clang lack the runtime of libFuzzer.
has_libfuzzer() {
  local folder status=0
  command -v clang++ >/dev/null || return 1
  folder=$(mktemp -d)
  echo 'extern "C" int LLVMFuzzerTestOneInput(const char*, unsigned long) { return 0; }' |
    clang++ -fsanitize=fuzzer,address,undefined -x c++ - -o "$folder/probe" 2>/dev/null || status=1
  rm -rf "$folder"
  return "$status"
}

readers=(config json safetensors)
arguments=("-DBDLM_SANITIZE=address,undefined" -DBDLM_OPTIMIZATION=-O1 -DBDLM_OPENMP=OFF
           -DBDLM_MPI=OFF -DBDLM_BENCH=OFF -DBDLM_WERROR=OFF)
folder=build-fuzz-standalone
if [[ $standalone == no ]]; then
  if has_libfuzzer; then
    folder=build-fuzz
    arguments+=(-DBDLM_FUZZ=ON -DCMAKE_CXX_COMPILER=clang++)
  else
    echo "fuzz: no Clang with libFuzzer here: mutations without feedback"
    standalone=yes
  fi
fi

log=$(mktemp)
trap 'rm -f "$log"' EXIT
quietly() {
  "$@" >"$log" 2>&1 || { cat "$log" >&2; exit 1; }
}
echo "fuzz: building in $folder/"
quietly configure "$folder" "${arguments[@]}"
quietly build "$folder" "${readers[@]/#/fuzz_}"

# No reader has a reason for one allocation above this, at inputs of this size.
export ASAN_OPTIONS=detect_leaks=1:strict_string_checks=1:max_allocation_size_mb=64
export UBSAN_OPTIONS=print_stacktrace=1:abort_on_error=1
findings=$folder/findings
mkdir -p "$findings"
failed=()
for reader in "${readers[@]}"; do
  seeds=conformance/fuzz/corpus/$reader
  status=0
  if [[ $standalone == yes ]]; then
    "$folder/fuzz/fuzz_$reader" --seconds "$seconds" --seed "$RANDOM" --findings "$findings" \
      "$seeds" >"$log" 2>&1 || status=$?
    summary=$(tail -n 1 "$log")
  else
    learnt=$folder/corpus/$reader
    mkdir -p "$learnt"
    # A run time of 0 would be endless.
    limit=(-max_total_time="$seconds")
    if ((10#$seconds == 0)); then
      limit=(-runs=0)
    fi
    "$folder/fuzz/fuzz_$reader" "${limit[@]}" -timeout=20 -max_len=16384 -rss_limit_mb=2048 \
      -print_final_stats=1 -artifact_prefix="$findings/$reader-" "$learnt" "$seeds" \
      >"$log" 2>&1 || status=$?
    summary="$(sed -n 's/^stat::number_of_executed_units: *//p' "$log") inputs, $(find "$learnt" \
      -type f | wc -l) learnt"
  fi
  if ((status == 0)); then
    echo "fuzz: $reader: $summary"
  else
    cat "$log" >&2
    failed+=("$reader")
  fi
done
if ((${#failed[@]} > 0)); then
  echo "fuzz: findings in ${failed[*]}; inputs in $findings/"
  exit 1
fi
echo "fuzz: no finding"
