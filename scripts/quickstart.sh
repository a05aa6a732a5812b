#!/usr/bin/env bash
# From a fresh clone to a first result: installs what is missing, builds the program, runs it.
#
#   scripts/quickstart.sh [--no-install]
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

for argument in "$@"; do
  if [[ $argument != --no-install ]]; then
    echo "quickstart.sh: unknown argument '$argument'; allowed: --no-install" >&2
    exit 2
  fi
done

scripts/install.sh "$@"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
echo "quickstart: configuring build/"
configure build >"$log" 2>&1 || { cat "$log" >&2; exit 1; }
echo "quickstart: building build/bdlm"
build build bdlm >"$log" 2>&1 || { cat "$log" >&2; exit 1; }

run() {
  echo
  echo "\$ $*"
  "$@"
}
run build/bdlm prove
run build/bdlm plan --model nemotron_14b --context 262144 --ranks 8 --scheme cp,bp,csbp
cat <<'END'

What else to try:
  build/bdlm --help                   every command, and "build/bdlm COMMAND --help" for one
  build/bdlm verify --level quick     every kind of check on small cases
  scripts/test.sh --quick             every test
  scripts/test.sh                     the same, then under the sanitizers, then lint
END
