#!/usr/bin/env bash
# Checks the form of the sources: format, clang-tidy, headers that compile alone, lengths, floors.
#
#   scripts/lint.sh [BASE]
#
# Format, lengths and floors are checked over every C++ file, clang-tidy and lone headers over what
# changed since the commit BASE. Without BASE that is the commit where this branch left origin/HEAD,
# or HEAD~1 where there is none or the branch has not left it, or the beginning where HEAD is the
# first commit that git knows. Files not yet committed count as changed.
#
# BDLM_TIDY_SECONDS: after so many seconds no further file is given to clang-tidy; those left out
# are named. Exit status: 0 where all is well, 1 otherwise, 2 for a wrong argument.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

most_lines=500
tidy_seconds=${BDLM_TIDY_SECONDS:-86400}
problems=0

problem() {
  echo "lint: $*"
  problems=$((problems + 1))
}

if [[ $# -gt 1 || ${1:-} == -* ]]; then
  echo "lint.sh: wrong arguments '$*'; allowed: [BASE], a commit" >&2
  exit 2
fi
head=$(git rev-parse HEAD)
empty_tree=$(git hash-object -t tree /dev/null)
if [[ $# -eq 1 ]]; then
  base=$(git rev-parse --verify --quiet "$1^{commit}") ||
    { echo "lint.sh: '$1' is no commit of this repository" >&2; exit 2; }
else
  base=$(git merge-base origin/HEAD HEAD 2>/dev/null) || base=
  if [[ -z $base || $base == "$head" ]]; then
    base=$(git rev-parse --verify --quiet 'HEAD~1^{commit}') || base=$empty_tree
  fi
fi

sources=('*.h' '*.cuh' '*.cc' '*.cu')
present() {  # drops the names of files that are deleted in the working tree
  local file
  while read -r file; do
    if [[ -f $file ]]; then
      echo "$file"
    fi
  done
}
mapfile -t all < <(git ls-files --cached --others --exclude-standard -- "${sources[@]}" | sort -u | present)
mapfile -t changed < <(
  {
    git diff --name-only "$base" -- "${sources[@]}"
    git ls-files --others --exclude-standard -- "${sources[@]}"
  } | sort -u | present)
echo "lint: ${#all[@]} C++ files, ${#changed[@]} changed since ${base:0:12}"

# --- format -----------------------------------------------------------------------------------
check_format() {
  if ! command -v clang-format >/dev/null; then
    problem "clang-format is missing: the format was not checked"
    return
  fi
  local file
  while read -r file; do
    problem "format, repair with: clang-format -i $file"
  done < <(clang-format --dry-run --Werror "${all[@]}" 2>&1 | sed -n 's/^\([^ :]*\):[0-9].*/\1/p' |
    sort -u)
}

# --- lengths ----------------------------------------------------------------------------------
check_lengths() {
  local file lines
  while read -r file; do
    lines=$(wc -l <"$file")
    if ((lines > most_lines)); then
      problem "$file has $lines lines, allowed are $most_lines"
    fi
  done < <(git ls-files --cached --others --exclude-standard -- "${sources[@]}" '*.py' '*.sh' \
    '*.cmake' '*CMakeLists.txt' | sort -u | present)
}

# --- floors -----------------------------------------------------------------------------------
# forbid FILES INCLUDES WHY: no file whose path matches the first expression has an include that
# matches the second. An include is matched together with its quote or bracket.
forbid() {
  local found files
  mapfile -t files < <(printf '%s\n' "${all[@]}" | grep -E "$1")
  if [[ ${#files[@]} -eq 0 ]]; then
    return
  fi
  found=$(grep -HnE "^[[:space:]]*#[[:space:]]*include[[:space:]]*($2)" "${files[@]}" || true)
  if [[ -n $found ]]; then
    echo "$found"
    problem "$3"
  fi
}

# allow FILES INCLUDES WHY: of the house's own headers these files include only those whose path
# matches the second expression.
allow() {
  local found files
  mapfile -t files < <(printf '%s\n' "${all[@]}" | grep -P "$1")
  if [[ ${#files[@]} -eq 0 ]]; then
    return
  fi
  found=$(grep -HnE '^[[:space:]]*#[[:space:]]*include[[:space:]]*"' "${files[@]}" |
    grep -vE "#[[:space:]]*include[[:space:]]*\"($2)" || true)
  if [[ -n $found ]]; then
    echo "$found"
    problem "$3"
  fi
}

check_floors() {
  allow '^reference/' 'reference/' "reference/ includes only reference/"
  allow '^reference/base/' 'reference/base/' "reference/base includes only itself"
  allow '^reference/layout/' 'reference/(base|layout)/' \
    "reference/layout includes only reference/base and itself"
  allow '^reference/schedule/' 'reference/(base|layout|schedule)/' \
    "reference/schedule includes only reference/base, reference/layout and itself"
  forbid '^reference/(base|layout|schedule)/' '[<"](unsupported/)?Eigen/|[<"]mpi\.h' \
    "reference/base, layout and schedule hold integers only: neither Eigen nor MPI"
  forbid '(^|/)ledger[^/]*$' '"reference/schedule/' \
    "the ledger counts in closed form: it includes nothing of reference/schedule"
  allow '^optimized/(?!.*_test\.)' \
    'optimized/|reference/(base|layout|schedule)/|conformance/plugin/bdlm_plugin\.h' \
    "optimized/ includes only itself, reference/base, layout, schedule and the plug-in header"
  allow '^optimized/.*_test\.' 'optimized/|reference/|conformance/(judge|plugin|report|suites)/' \
    "a test of optimized/ may include the reference and the judge besides, and nothing else"
  allow '^conformance/report/' 'conformance/report/|reference/base/' \
    "conformance/report includes only itself and reference/base"
  forbid '^conformance/plugin/bdlm_plugin\.h$' '"' "the plug-in header needs nothing of the house"
  allow '^conformance/plugin/example/' 'bdlm_plugin\.h' \
    "the example includes the plug-in header alone, as a user's does"
  allow '^conformance/plugin/[^/]*$' \
    'conformance/(plugin|judge|report)/|reference/(base|layout|math)/' \
    "conformance/plugin includes only itself, judge, report and reference/base, layout and math"
  allow '^conformance/' 'conformance/|reference/|golden/|optimized/|bdlm_plugin\.h' \
    "conformance/ includes nothing of bench/"
  forbid '^conformance/(judge|suites|mutants|report|plugin|worker)/' \
    '"optimized/|"conformance/cli/' \
    "only conformance/cli may include optimized/ or itself: a backend is seen through the plug-in"
}

# --- headers alone ----------------------------------------------------------------------------
# The include folders and the flags of the build, as compile_commands.json has them.
build_flags() {
  echo -std=c++20 -march=x86-64-v3 -ffp-contract=off -Wall -Wextra -Wpedantic -Wshadow -Werror \
    -Wno-unknown-pragmas -I.
  if [[ -f build/compile_commands.json ]]; then
    grep -oE -- '-isystem [^ "]+' build/compile_commands.json | sort -u
  else
    echo -isystem /usr/include/eigen3
  fi
}

check_headers() {
  local headers header
  mapfile -t headers < <(printf '%s\n' "${changed[@]}" | grep '\.h$')
  if [[ ${#headers[@]} -eq 0 ]]; then
    return
  fi
  mapfile -t flags < <(build_flags | tr -s ' ' '\n')
  # Where the build has no CUDA there are no headers for what needs it.
  if ! g++ -fsyntax-only "${flags[@]}" -include cuda_runtime_api.h -x c++ /dev/null 2>/dev/null; then
    mapfile -t headers < <(printf '%s\n' "${headers[@]}" | grep -v '^optimized/cuda/' || true)
    echo "lint: without CUDA its headers are not compiled alone"
    if [[ ${#headers[@]} -eq 0 ]]; then
      return
    fi
  fi
  # shellcheck disable=SC2016
  printf '%s\0' "${headers[@]}" | xargs -0 -n 1 -P "$(nproc)" bash -c '
    folder=$1 header=${*: -1}
    set -- "${@:2:$#-2}"
    g++ -fsyntax-only "$@" -include "$header" -x c++ /dev/null || echo "$header" >>"$folder/headers"
  ' bash "$results" "${flags[@]}" || true
  while read -r header; do
    problem "$header does not compile alone"
  done < <(sort "$results/headers" 2>/dev/null)
}

# Reads compile_commands.json as CMake writes it, a key a line. Writes a command for each source that
# a unity file includes, without what Clang cannot read: GCC's precompiled headers and its <omp.h>.
single_commands() {
  echo '['
  sed -E 's/ -Winvalid-pch| -fopenmp| -include [^ ]*cmake_pch\.hxx//g' | awk '
    function entry(source,   at, text) {
      at = index(command, " -c " name)
      text = substr(command, 1, at + 3) source substr(command, at + 4 + length(name))
      printf "%s{\n%s\n%s\n  \"file\": \"%s\"\n}", comma, folder, text, source
      comma = ",\n"
    }
    /^ *"directory":/ { folder = $0 }
    /^ *"command":/ { command = $0 }
    /^ *"file":/ {
      name = $0
      gsub(/^ *"file": "|",?$/, "", name)
      if (name !~ /\/Unity\/unity_[0-9]+_cxx\.cxx$/) {
        entry(name)
        next
      }
      while ((getline line < name) > 0) {
        if (line ~ /^#include "/) {
          gsub(/^#include "|"$/, "", line)
          entry(line)
        }
      }
      close(name)
    }'
  echo ']'
}

# --- clang-tidy -------------------------------------------------------------------------------
# Checks one file and notes its name in $results where it has findings or the time is over.
tidy_one() {  # FILE
  local left=$((tidy_until - $(date +%s))) status=0 output
  if ((left <= 0)); then
    echo "$1" >>"$results/left"
    return
  fi
  # Warnings that only GCC has, and pragmas of OpenMP, are no concern here.
  output=$(timeout "$left" clang-tidy -p "$results" --quiet --extra-arg=-Wno-unknown-warning-option \
    --extra-arg=-Wno-unknown-pragmas "$1" 2>&1) || status=$?
  if ((status == 124)); then
    echo "$1" >>"$results/left"
  elif ((status != 0)); then
    printf '%s\n' "$output" | grep -vE '^[0-9]+ warnings? |^Suppressed |^Use -header-filter'
    echo "$1" >>"$results/tidy"
  fi
}

check_tidy() {
  local files file
  # Tests last: what they test matters more where the time is short.
  mapfile -t files < <(printf '%s\n' "${changed[@]}" | grep '\.cc$' | grep -v '_test\.cc$'
    printf '%s\n' "${changed[@]}" | grep '_test\.cc$')
  if [[ ${#files[@]} -eq 0 ]]; then
    return
  fi
  if ! command -v clang-tidy >/dev/null; then
    problem "clang-tidy is missing: ${#files[@]} files were not checked"
    return
  fi
  if [[ ! -f build/compile_commands.json ]]; then
    problem "there is no build/compile_commands.json; configure first: cmake -S . -B build"
    return
  fi
  single_commands <build/compile_commands.json >"$results/compile_commands.json"
  for file in "${files[@]}"; do
    if grep -qF "\"file\": \"$root/$file\"" "$results/compile_commands.json"; then
      printf '%s\0' "$file"
    else
      echo "lint: $file is not in the build: not given to clang-tidy" >&2
    fi
  done >"$results/files"
  tidy_until=$(($(date +%s) + tidy_seconds))
  export results tidy_until
  export -f tidy_one
  # shellcheck disable=SC2016
  xargs -0 -r -n 1 -P "$(nproc)" bash -c 'tidy_one "$1"' bash <"$results/files" || true
  while read -r file; do
    problem "clang-tidy: $file"
  done < <(sort "$results/tidy" 2>/dev/null)
  while read -r file; do
    echo "lint: not given to clang-tidy, $tidy_seconds s were over: $file"
  done < <(sort "$results/left" 2>/dev/null)
}

results=$(mktemp -d)
trap 'rm -rf "$results"' EXIT
check_format
check_lengths
check_floors
check_headers
check_tidy
if ((problems > 0)); then
  echo "lint: $problems problems"
  exit 1
fi
echo "lint: no problem"
