#!/usr/bin/env bash
# Installs what the project needs from Debian's packages: only what is missing, asking nothing.
#
#   scripts/install.sh [--no-install] [--lint]
#
#   --no-install   install nothing: say what is missing and go on (no root needed)
#   --lint         also clang-format and clang-tidy, which only scripts/lint.sh uses
#
# The machine's own apt configuration and proxies are used as they are. Exit status: 0 where
# everything necessary is there or --no-install was given, 1 otherwise.
set -euo pipefail

# Without these nothing builds.
necessary=(g++ cmake ninja-build libeigen3-dev libboost-dev libboost-test-dev libcli11-dev
           nlohmann-json3-dev)
# Without these a part is left out: the benchmarks, the MPI communicator, the Python package's tests.
optional=(libbenchmark-dev libopenmpi-dev openmpi-bin python3-numpy)
lint=(git ca-certificates clang-format clang-tidy)
# A program that stands for its package, wherever it was installed from.
declare -A program=([g++]=g++ [cmake]=cmake [ninja-build]=ninja [openmpi-bin]=mpiexec [git]=git
                    [clang-format]=clang-format [clang-tidy]=clang-tidy)
cmake_at_least=3.25

install=yes
for argument in "$@"; do
  case $argument in
    --no-install) install=no ;;
    --lint) optional+=("${lint[@]}") ;;
    *) echo "install.sh: unknown argument '$argument'; allowed: --no-install --lint" >&2; exit 2 ;;
  esac
done

is_there() {  # PACKAGE
  if [[ -n ${program[$1]:-} ]] && command -v "${program[$1]}" >/dev/null; then
    return 0
  fi
  [[ $(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null) == installed ]]
}

# Prints those of its arguments that are missing, separated by spaces.
missing_of() {
  local package found=()
  for package in "$@"; do
    is_there "$package" || found+=("$package")
  done
  echo "${found[*]}"
}

as_root=()
can_install=yes
if [[ $(id -u) -ne 0 ]]; then
  if ! command -v sudo >/dev/null; then
    can_install=no
  elif [[ -t 0 ]]; then
    as_root=(sudo)
  else
    as_root=(sudo -n)  # nobody there to type a password
  fi
fi
command -v apt-get >/dev/null || can_install=no

missing=$(missing_of "${necessary[@]}" "${optional[@]}")
if [[ -z $missing ]]; then
  echo "install: every package is there"
elif [[ $install == no ]]; then
  echo "install: missing, not installed as asked: $missing"
elif [[ $can_install == no ]]; then
  echo "install: missing: $missing"
  echo "install: neither root nor sudo with apt-get here; as root, install them with"
  echo "  apt-get update && apt-get install --no-install-recommends $missing"
else
  echo "install: installing $missing"
  log=$(mktemp)
  # $missing holds package names: its words are meant to be split.
  # shellcheck disable=SC2086
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive sh -c '
    apt-get -q -o Acquire::Retries=3 update &&
    apt-get -q -y -o Acquire::Retries=3 -o Dpkg::Use-Pty=0 install --no-install-recommends "$@"
  ' sh $missing >"$log" 2>&1 || {
    tail -n 20 "$log" >&2
    echo "install: apt-get failed" >&2
  }
  rm -f "$log"
  missing=$(missing_of "${optional[@]}")
  [[ -z $missing ]] || echo "install: still missing, done without: $missing"
fi

if command -v cmake >/dev/null; then
  version=$(cmake --version | sed -n '1s/[^0-9]*\([0-9.]*\).*/\1/p')
  if [[ $(printf '%s\n' "$cmake_at_least" "$version" | sort -V | head -n 1) != "$cmake_at_least" ]]; then
    echo "install: cmake is $version, needed is $cmake_at_least or later" >&2
    [[ $install == no ]] || exit 1
  fi
fi
missing=$(missing_of "${necessary[@]}")
if [[ -n $missing && $install == yes ]]; then
  echo "install: without these nothing builds: $missing" >&2
  exit 1
fi
