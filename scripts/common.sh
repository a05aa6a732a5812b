# What the scripts share; sourced, never run. Leaves the shell in the root of the repository.
# shellcheck shell=bash
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root" || exit 1

# git also where the checkout belongs to another user, as it does in many containers.
git() {
  command git -c safe.directory="$root" "$@"
}

# configure FOLDER [CMAKE ARGUMENT...]: Ninja and ccache where they are found. A folder that was
# configured before keeps its generator.
configure() {
  local folder=$1 arguments=(-DCMAKE_BUILD_TYPE=Release)
  shift
  if [[ ! -f $folder/CMakeCache.txt ]] && command -v ninja >/dev/null; then
    arguments+=(-G Ninja)
  fi
  if command -v ccache >/dev/null; then
    arguments+=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache)
  fi
  cmake -S . -B "$folder" "${arguments[@]}" "$@"
}

# build FOLDER [TARGET...]: on every core; everything where no target is named.
build() {
  local folder=$1 targets=()
  shift
  if [[ $# -gt 0 ]]; then
    targets=(--target "$@")
  fi
  cmake --build "$folder" --parallel "$(nproc)" "${targets[@]}"
}
