#!/usr/bin/env bash
# Whether the suite finds the faults that are planted in GPU kernels; needs a GPU.
#
#   scripts/gpu_mutants.sh [--build FOLDER] [--mutants GLOB] [--out FILE.json]
#
#   --build FOLDER   where bdlm, the plug-ins and mutants/bdlm_cuda_NAME.so are; default build
#   --mutants GLOB   only the mutants whose names match
#   --out FILE       also writes {"device", "summary": {"faults", "killed"}, "faults": [{"name",
#                    "class", "what", "killed_by", "verdict", "reason", "case", "diagnosis"}]}
#
# Mutants are made by: cmake --build FOLDER --target bdlm bdlm_cuda_mutants. Those that are not
# built are named and left out. The plug-ins without a fault run first, on the same cases, and have
# to pass. Then each mutant is judged tier by tier, up to its first FAIL, CRASH or TIMEOUT. A patch
# in optimized/cuda/mutants says which level, tiers and cases show its fault.
#
# Exit status: 0 where every mutant was found, 1 where one survived or the right code failed, 2 for
# a wrong argument.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

folder=build
chosen='*'
report=
wrong() {
  echo "gpu_mutants.sh: $*; allowed: [--build FOLDER] [--mutants GLOB] [--out FILE.json]" >&2
  exit 2
}
while [[ $# -gt 0 ]]; do
  [[ $# -gt 1 ]] || wrong "wrong argument '$1'"
  case $1 in
    --build) folder=$2 ;;
    --mutants) chosen=$2 ;;
    --out) report=$2 ;;
    *) wrong "wrong argument '$1'" ;;
  esac
  shift 2
done
[[ -x $folder/bdlm ]] || wrong "there is no $folder/bdlm"

patches=optimized/cuda/mutants
jobs=8
case_seconds=20  # a mutant may hang
log=$(mktemp)
trap 'rm -f "$log"' EXIT

# field NAME WORD DEFAULT: the text behind "WORD: " before the diff of a patch.
field() {
  local text
  text=$(sed -n "/^diff /q; s/^$2: //p" "$patches/$1.patch")
  echo "${text:-$3}"
}

# stop PROCESS: ends bdlm and its workers, each of which leads a process group.
stop() {
  local workers=()
  kill -STOP "$1" 2>/dev/null || return 0  # it starts no more of them
  read -ra workers < <(cat /proc/"$1"/task/*/children 2>/dev/null | tr '\n' ' ') || true
  kill -KILL "$1"
  local worker
  for worker in "${workers[@]}"; do
    kill -KILL -- "-$worker" 2>/dev/null || true
  done
}

# judge PLUGIN LEVEL TIER CASES: runs the cases until one of them is wrong. Sets `verdict`, empty
# where none was, `reason`, `id` and `detail`; the last as it stands in JSON. Fails where none was
# wrong and none was right either; what bdlm said is in $log.
judge() {
  local line lines process status=0 judged=0
  verdict='' reason='' id='' detail=''
  exec {lines}< <(exec "$folder/bdlm" verify --backend "$1" --level "$2" --tier "$3" --case "$4" \
    --jobs "$jobs" --timeout "$case_seconds" --jsonl - 2>"$log")
  process=$!
  while read -r -u "$lines" line; do
    if [[ $line == *'"verdict":"PASS","reason"'* ]]; then
      judged=$((judged + 1))
    fi
    if [[ $line =~ ^\{\"id\":\"([^\"]*)\",\"tier\":\"[^\"]*\",\"verdict\":\"(FAIL|CRASH|TIMEOUT)\",\"reason\":\"([^\"]*)\" ]]; then
      id=${BASH_REMATCH[1]} verdict=${BASH_REMATCH[2]} reason=${BASH_REMATCH[3]}
      if [[ $line =~ \"detail\":\"(([^\"\\]|\\.)*)\" ]]; then
        detail=${BASH_REMATCH[1]}
      fi
      stop "$process"
      break
    fi
  done
  exec {lines}<&-
  wait "$process" 2>/dev/null || status=$?
  [[ -n $verdict ]] || ((status == 0 && judged > 0))
}

# What the right code has passed, as "PLUGIN LEVEL TIER CASES".
declare -A passed=()
selection=()
check_right_code() {  # PLUGIN LEVEL TIER CASES
  if [[ -n ${passed["$*"]:-} ]]; then
    return 0
  fi
  if ! judge "$folder/$1.so" "$2" "$3" "$4"; then
    echo "gpu_mutants: $1 was not judged by $3 of level $2, cases '$4':" >&2
    tail -n 3 "$log" >&2
    exit 1
  elif [[ -n $verdict ]]; then
    echo "gpu_mutants: without a fault $1 is $verdict $reason, $3 $id: $detail" >&2
    exit 1
  fi
  passed["$*"]=yes
  selection=("$@")
  if [[ -z ${device:-} ]]; then
    device=$(sed -n 's/^backend [^(]*(\(.*\)), judged by .*/\1/p' "$log" | head -n 1)
    device=${device//[\"\\]/}
  fi
}

names=()
left_out=()
for patch in "$patches"/*.patch; do
  name=$(basename "$patch" .patch)
  # shellcheck disable=SC2053
  if [[ $name == $chosen ]]; then
    if [[ -f $folder/mutants/bdlm_cuda_$name.so ]]; then
      names+=("$name")
    else
      left_out+=("$name")
    fi
  fi
done
[[ ${#names[@]} -gt 0 ]] || wrong "no mutant that matches '$chosen' is in $folder/mutants"
if [[ ${#left_out[@]} -gt 0 ]]; then
  echo "not built, left out: ${left_out[*]}"
fi

begin=$SECONDS
for name in "${names[@]}"; do
  IFS=, read -ra tiers <<<"$(field "$name" tiers T1,T4,T5,T6)"
  for tier in "${tiers[@]}"; do
    check_right_code "$(field "$name" plugin bdlm_cuda)" "$(field "$name" level quick)" "$tier" \
      "$(field "$name" cases '*')"
  done
done
echo "${device:-unknown device}: the right code passes ${#passed[@]} selections of cases," \
  "$((SECONDS - begin)) s"

killed=0
unjudged=0
faults=()
printf '\n%-22s %-16s %-4s %-9s %s\n' mutant class tier reason "case: detail"
for name in "${names[@]}"; do
  class=$(field "$name" class '')
  what=$(field "$name" fault '')
  IFS=, read -ra tiers <<<"$(field "$name" tiers T1,T4,T5,T6)"
  by=
  for tier in "${tiers[@]}"; do
    if ! judge "$folder/mutants/bdlm_cuda_$name.so" "$(field "$name" level quick)" "$tier" \
      "$(field "$name" cases '*')"; then
      by=unjudged
      break
    elif [[ -n $verdict ]]; then
      by=$tier
      break
    fi
  done
  if [[ -z $by ]]; then
    printf '%-22s %-16s SURVIVED: %s\n' "$name" "$class" "$what"
  elif [[ $by == unjudged ]]; then
    unjudged=$((unjudged + 1))
    by=
    printf '%-22s %-16s NOT JUDGED by %s: %s\n' "$name" "$class" "$tier" "$(tail -n 1 "$log")"
  else
    killed=$((killed + 1))
    word=$verdict
    [[ $verdict != FAIL ]] || word=$reason
    printf '%-22s %-16s %-4s %-9s %s: %s\n' "$name" "$class" "$by" "$word" "$id" \
      "${detail//\\\"/\"}"
  fi
  faults+=("  {\"name\": \"$name\", \"class\": \"$class\", \"what\": \"$what\",
   \"killed_by\": [${by:+\"$by\"}], \"verdict\": \"$verdict\", \"reason\": \"$reason\",
   \"case\": \"$id\", \"diagnosis\": \"$detail\"}")
done
# Kills say something as long as the device still works.
passed=()
check_right_code "${selection[@]}"
echo
echo "$killed of ${#names[@]} mutants were found, $((SECONDS - begin)) s"

if [[ -n $report ]]; then
  {
    printf '{"device": "%s",\n "summary": {"faults": %d, "killed": %d},\n "faults": [\n' \
      "${device:-}" "${#names[@]}" "$killed"
    (IFS=$'\n'; printf '%s' "${faults[0]}"; printf ',\n%s' "${faults[@]:1}")
    printf '\n ]}\n'
  } >"$report"
fi
((killed == ${#names[@]} && unjudged == 0))
