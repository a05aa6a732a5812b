#!/usr/bin/env bash
# On a machine with a GPU: builds the CUDA plug-ins, verifies, tests and times them. Every stage has a
# time limit, and one that fails does not stop the next.
#
#   scripts/gpu.sh --out DIR [--build FOLDER] [--quick] [--stages LIST] [--dry-run]
#
#   --out DIR        where the results go
#   --build FOLDER   take the build in FOLDER as it is, with shared libraries in FOLDER/lib where the
#                    machine lacks some; else the stages use build/, which is brought up to date first
#   --quick          verify at the level quick in place of gate, and leave out the stage long
#   --stages LIST    only these, separated by commas; build alone needs no GPU
#   --dry-run        print the commands and run none
#
#   stage      what                                             seconds   writes to DIR
#   build      the programs below, in build/                       1800
#   verify     bdlm verify --backend bdlm_cuda.so --strict          480   verify.jsonl, as they come
#   tests      cuda_device_tests                                    300
#   sanitize   memcheck and racecheck of compute-sanitizer          480   sanitize.txt
#              on a few small cases
#   bench      bench_attention, each row verified                   300   bench.json
#   peers      attention_peers.py, where Python has torch           480   peers.json
#   join       the two together, behind bench or peers               60   attention_<device>.json
#   long       lengths where only the oracle in double              420   long.json
#              can judge
#
# What all of them say is in DIR/log.txt. BDLM_STAGE_SECONDS lowers every limit to so many seconds;
# PYTHON names another Python than python3. Exit status: 1 where a stage failed, 2 for a wrong
# argument, 77 where every stage was skipped, 0 otherwise.
set -euo pipefail
called_from=$PWD
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

all_stages=build,verify,tests,sanitize,bench,peers,long
targets=(bdlm bdlm_cuda bdlm_cuda_f64)
optional_targets=(bench_attention cuda_device_tests)
# Both head dimensions that have kernels of their own; one rank and several; windows; several tiles;
# guards around every tensor.
sanitized_cases=(
  monolithic-P1-L21-M8-h2k1-d128-gauss-blockcausal-s1
  csbp-P8-L133-M8-w11-h2k1-d128-gauss-tokencausal-s1
  monolithic-P1-L257-M32-h2k1-d64-gauss-blockcausal-s1
  csbp-P2-L37-M8-w11-h8k2-d64-gauss-tokencausal-s1
  hygiene-attention-everything
)

wrong() {
  echo "gpu.sh: $*" >&2
  exit 2
}

# --- arguments --------------------------------------------------------------------------------
out=
folder=
level=gate
stages=
dry_run=no
value_of() {  # OPTION COUNT: whether a value follows
  (($2 > 1)) || wrong "$1 has no value"
}
while (($# > 0)); do
  case $1 in
    --out) value_of "$1" $#; out=$2; shift ;;
    --build) value_of "$1" $#; folder=$2; shift ;;
    --stages) value_of "$1" $#; stages=$2; shift
      [[ -n $stages ]] || wrong "--stages is empty; allowed: $all_stages" ;;
    --quick) level=quick ;;
    --dry-run) dry_run=yes ;;
    *) wrong "unknown argument '$1'; allowed: --out --build --quick --stages --dry-run" ;;
  esac
  shift
done
[[ -n $out ]] || wrong "--out DIR is missing"
if [[ -z $stages ]]; then
  stages=$all_stages
  [[ $level == gate ]] || stages=${stages%,long}
fi
IFS=, read -ra wanted_stages <<<"$stages"
for name in "${wanted_stages[@]}"; do
  [[ ,$all_stages, == *",$name,"* ]] || wrong "unknown stage '$name'; allowed: $all_stages"
done
most_seconds=${BDLM_STAGE_SECONDS:-86400}
[[ $most_seconds =~ ^[0-9]{1,6}$ ]] || wrong "BDLM_STAGE_SECONDS is '$most_seconds', no number"

out=$(cd "$called_from" && realpath -m "$out")
unbuilt=  # why the build must not be used
build_is_made=no
if [[ -n $folder ]]; then
  folder=$(cd "$called_from" && realpath -m "$folder")
  [[ -x $folder/bdlm ]] || wrong "--build $folder: there is no program bdlm in it"
else
  folder=$root/build
  build_is_made=yes
fi
log=$out/log.txt
if [[ $dry_run == no ]]; then
  [[ ! -e $out || -d $out ]] || wrong "--out $out is no folder"
  mkdir -p "$out" || wrong "--out $out cannot be made"
  touch "$log" || wrong "--out $out cannot be written"
fi

# --- commands ---------------------------------------------------------------------------------
say() {
  echo "$*"
  [[ $dry_run == yes ]] || echo "$*" >>"$log"
}

child=
interrupted() {
  [[ -z $child ]] || kill "$child" 2>/dev/null || true
  say "interrupted"
  exit 130
}
trap interrupted INT TERM

stage_until=0
# limited OUT ERR COMMAND...: appends what the command says to two files; ends it, and with status 124,
# when the time of the stage is over.
limited() {
  local to=$1 errors=$2 left=$((stage_until - SECONDS)) status=0
  shift 2
  if [[ $dry_run == yes ]]; then
    printf '$'
    printf ' %q' "$@"
    echo " >>$to"
    return 0
  fi
  ((left > 0)) || return 124
  echo "\$ $*" >>"$log"
  # In the background, so that this script hears a signal at once.
  timeout --kill-after=10 "$left" "$@" >>"$to" 2>>"$errors" &
  child=$!
  wait "$child" || status=$?
  child=
  if ((status == 137 && SECONDS >= stage_until)); then
    status=124
  fi
  return "$status"
}

log_lines=0  # of the log when the stage began
this_stage() {
  tail -n "+$((log_lines + 1))" "$log"
}

# show PATTERN: the last line of this stage's log that matches.
show() {
  local found
  [[ $dry_run == no ]] || return 0
  found=$(this_stage | grep -E "$1" | tail -n 1) || return 0
  echo "  $found"
}

why=
# skip WHY, to be returned from a stage with its status.
skip() {
  why=$*
  return 77
}

gpu_is_missing() {
  local said
  if ! command -v nvidia-smi >/dev/null; then
    why="no GPU: nvidia-smi is not found"
  elif ! said=$(nvidia-smi -L 2>&1) || [[ $said != *GPU* ]]; then
    why="no GPU: nvidia-smi says: ${said%%$'\n'*}"
  else
    return 1
  fi
}

# needs FILE...: status 77 where there is no GPU, or one of these files is missing or, a program, lacks
# shared libraries.
needs() {
  local file lacking
  [[ $dry_run == no ]] || return 0
  if gpu_is_missing; then
    return 77
  fi
  [[ -z $unbuilt ]] || skip "$unbuilt" || return
  for file in "$@"; do
    [[ -e $file ]] || skip "there is no $file" || return
    lacking=$("${own[@]}" ldd "$file" 2>/dev/null | grep -m 1 'not found') || continue
    skip "$file does not start: ${lacking#"${lacking%%[![:space:]]*}"}" || return
  done
}

# For programs of the build alone: Python's torch has libraries of its own.
own=(env)
if [[ -d $folder/lib ]]; then
  own+=("LD_LIBRARY_PATH=$folder/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}")
fi
plugin=$folder/bdlm_cuda.so
oracle=$folder/bdlm_cuda_f64.so

# tool NAME: the path of a program of the CUDA toolkit.
tool() {
  command -v "$1" || { [[ -x ${CUDA_HOME:-/usr/local/cuda}/bin/$1 ]] &&
    echo "${CUDA_HOME:-/usr/local/cuda}/bin/$1"; }
}

# --- stages -----------------------------------------------------------------------------------
wanted() {
  [[ ,$stages, == *",$1,"* ]]
}

# A function of common.sh, within the limit.
in_common() {
  # shellcheck disable=SC2016
  limited "$log" "$log" bash -c 'source scripts/common.sh; "$@"' bash "$@"
}

stage_build() {
  local nvcc name
  if [[ $build_is_made == no ]]; then
    skip "$folder is taken as it is" || return
  fi
  if [[ $dry_run == no ]]; then
    unbuilt="nothing was built"
    if ! wanted build && gpu_is_missing; then
      return 77
    fi
    nvcc=$(tool nvcc) ||
      skip "nvcc is not found; --build FOLDER takes a build that was made elsewhere" || return
    export CUDACXX=${CUDACXX:-$nvcc}
  fi
  in_common configure "$folder" -DBDLM_CUDA=ON -DBDLM_MPI=OFF || return
  # CMake has these where it finds the libraries that they need.
  for name in "${optional_targets[@]}"; do
    if [[ $dry_run == yes ]] || cmake --build "$folder" --target help | grep -qw "$name"; then
      targets+=("$name")
    fi
  done
  in_common build "$folder" "${targets[@]}" || return
  unbuilt=
}

stage_verify() {
  local status=0
  needs "$folder/bdlm" "$plugin" || return
  limited "$out/verify.jsonl" "$log" "${own[@]}" "$folder/bdlm" verify --backend "$plugin" \
    --level "$level" --strict --jobs "$(nproc)" --jsonl - || status=$?
  show '^[0-9]+ cases: |^bdlm: '
  return "$status"
}

stage_tests() {
  local status=0 program=$folder/tests/cuda_device_tests
  needs "$program" "$plugin" "$oracle" || return
  limited "$log" "$log" "${own[@]}" "BDLM_CUDA_PLUGIN=$plugin" "BDLM_CUDA_F64_PLUGIN=$oracle" \
    "$program" --color_output=no --log_level=message || status=$?
  show 'No errors detected|failures? (is|are) detected'
  ((status != 77)) || skip "cuda_device_tests finds no device"
  return "$status"
}

# total FILE PATTERN: the sum of the numbers in front of a word in the summaries of a sanitizer.
total() {
  grep -E '(ERROR|RACECHECK) SUMMARY: ' "$1" | grep -oE "[0-9]+ $2" |
    awk '{ sum += $1 } END { print sum + 0 }'
}

# sanitize_one SANITIZER TOOL CASE FILE: what the sanitizer says goes to the file. The worker that
# calls the plug-in is a child of bdlm, which itself never calls CUDA.
sanitize_one() {
  local said=$4 status=0 start=$SECONDS found
  limited "$said" "$said" "${own[@]}" "$1" --tool "$2" --target-processes all \
    --require-cuda-init no --error-exitcode 9 "$folder/bdlm" verify --backend "$plugin" \
    --level gate --tier T4,T6 --case "$3" --timeout 300 || status=$?
  [[ $dry_run == no ]] || return 0
  if ! grep -qsE '(ERROR|RACECHECK) SUMMARY: ' "$said"; then
    found="no summary"
    ((status != 0)) || status=1
  else
    found="$(total "$said" error) errors, $(total "$said" warning) warnings"
    [[ $found == "0 errors"* ]] || status=9
  fi
  say "  $2 $3: $found$( ((status == 0)) || echo ", status $status"), $((SECONDS - start)) s"
  return "$status"
}

stage_sanitize() {
  local sanitizer=compute-sanitizer kind id said failures=0 cases=0 status
  needs "$folder/bdlm" "$plugin" || return
  if [[ $dry_run == no ]]; then
    sanitizer=$(tool compute-sanitizer) || skip "compute-sanitizer is not found" || return
  fi
  for kind in memcheck racecheck; do
    for id in "${sanitized_cases[@]}"; do
      said=$out/sanitize.tmp
      status=0
      sanitize_one "$sanitizer" "$kind" "$id" "$said" || status=$?
      cases=$((cases + 1))
      ((status == 0)) || failures=$((failures + 1))
      [[ -f $said ]] || continue
      { echo "== $kind $id"; cat "$said"; } >>"$out/sanitize.txt"
      if grep -q 'Device not supported' "$said"; then
        rm "$said"
        skip "compute-sanitizer: Device not supported" || return
      fi
      rm "$said"
    done
  done
  why="$failures of $cases cases"
  ((failures == 0))
}

# time_shapes SHAPES RESULT: bench_attention itself ends well where a row has failed.
time_shapes() {
  local status=0 failures
  needs "$folder/bench_attention" "$plugin" "$oracle" || return
  limited "$log" "$log" "${own[@]}" "$folder/bench_attention" "--plugin=$plugin" \
    "--oracle=$oracle" "--shapes=$1" "--benchmark_out=$2" --benchmark_out_format=json || status=$?
  ((status != 77)) || skip "bench_attention finds no device"
  if ((status != 0)) || [[ $dry_run == yes ]]; then
    return "$status"
  fi
  [[ -s $2 ]] || why="no $2 was written"
  [[ -z $why ]] || return 1
  failures=$(grep -c '"error_occurred": true' "$2") || true
  why="$failures rows with the verdict FAIL"
  ((failures == 0))
}

stage_bench() {
  time_shapes bench/attention_shapes.json "$out/bench.json"
}

stage_long() {
  local status=0
  time_shapes bench/attention_long_shapes.json "$out/long.json" || status=$?
  if ((status != 77)) && [[ $dry_run == no ]]; then
    this_stage | grep -E '^[^ ]+/(forward|backward)/.*tflops=' |
      sed -E 's/^([^ ]+ward).* (tflops=.*)/  \1 \2/' || true
  fi
  return "$status"
}

stage_peers() {
  local python=${PYTHON:-python3}
  if [[ $dry_run == no ]]; then
    if gpu_is_missing; then
      return 77
    fi
    "$python" -c 'import torch' 2>/dev/null || skip "torch is not found" || return
  fi
  limited "$log" "$log" "$python" bench/peers/attention_peers.py \
    --shapes bench/attention_shapes.json --out "$out/peers.json"
}

stage_join() {
  local status=0 peers=()
  if [[ $dry_run == no && ! -f $out/bench.json ]]; then
    skip "there is no bench.json" || return
  fi
  if [[ $dry_run == yes || -f $out/peers.json ]]; then
    peers=(--peers "$out/peers.json")
  fi
  limited "$log" "$log" "${PYTHON:-python3}" bench/peers/join.py --own "$out/bench.json" \
    "${peers[@]}" --shapes bench/attention_shapes.json --out "$out" || status=$?
  [[ $dry_run == yes ]] || this_stage | grep -v '^\$ ' || true
  return "$status"
}

# --- all of them ------------------------------------------------------------------------------
failed=0
ran=0
# stage NAME SECONDS [RESULT...]: runs a stage, which makes these files anew.
stage() {
  local name=$1 limit=$(($2 < most_seconds ? $2 : most_seconds)) start=$SECONDS status=0 said
  if [[ $dry_run == no ]]; then
    rm -f "${@:3}"
    log_lines=$(wc -l <"$log")
  fi
  why=
  stage_until=$((SECONDS + limit))
  "stage_$name" || status=$?
  case $status in
    0) said=ok ;;
    77) said="skipped ($why)" ;;
    124) said="FAILED (over $limit s)" ;;
    *) said="FAILED (${why:-status $status})" ;;
  esac
  [[ $dry_run == no ]] || said="skipped (dry run)"
  ((status == 77)) || ran=$((ran + 1))
  ((status == 0 || status == 77)) || failed=$((failed + 1))
  say "stage $name: $said, $((SECONDS - start)) s"
}

[[ $stages == peers ]] || stage build 1800
! wanted verify || stage verify 480 "$out/verify.jsonl"
! wanted tests || stage tests 300
! wanted sanitize || stage sanitize 480 "$out/sanitize.txt" "$out/sanitize.tmp"
! wanted bench || stage bench 300 "$out/bench.json"
! wanted peers || stage peers 480 "$out/peers.json"
if wanted bench || wanted peers; then
  stage join 60
fi
! wanted long || stage long 420 "$out/long.json"

((failed == 0)) || exit 1
((ran > 0)) || exit 77
