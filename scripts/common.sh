# What the scripts share; sourced, never run. Leaves the shell in the root of the repository.
# shellcheck shell=bash
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root" || exit 1

# git also where the checkout belongs to another user, as it does in many containers.
git() {
  command git -c safe.directory="$root" "$@"
}

# configure FOLDER [CMAKE ARGUMENT...]: Ninja and ccache where they are found. A folder that was
# configured before keeps its generator. Sources are compiled several at a time: where everything is
# built once, that halves the time. Who builds again after every change leaves it off.
configure() {
  local folder=$1 arguments=(-DCMAKE_BUILD_TYPE=Release -DCMAKE_UNITY_BUILD=ON
                             -DCMAKE_UNITY_BUILD_BATCH_SIZE=10)
  shift
  if [[ ! -f $folder/CMakeCache.txt ]] && command -v ninja >/dev/null; then
    arguments+=(-G Ninja)
  fi
  # Debian's Python has NumPy where scripts/install.sh has run; PYTHON names another.
  if [[ -x ${PYTHON:-/usr/bin/python3} ]]; then
    arguments+=(-DPython3_EXECUTABLE="${PYTHON:-/usr/bin/python3}")
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
