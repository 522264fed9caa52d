#!/usr/bin/env bash
# Makes .venv with the locked requirements and raidlab itself. If it exists already, this does nothing and needs no
# network.
# Usage: venv.sh runtime|cluster|dev      (each includes everything in the previous one)
set -euo pipefail

cd -P "$(dirname "${BASH_SOURCE[0]}")/../.."
readonly venv=.venv
# Others must never be able to write here. What Python loads must not depend on environment variables or on the user's
# own packages. This also applies to the processes that pip starts.
umask go-w
# shellcheck disable=SC2086
unset ${!PYTHON@}
export PYTHONNOUSERSITE=1

say() { printf 'python: %s\n' "$*" >&2; }

is_new_enough() { "$1" -I -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }

# The system's own Python is preferred, because a version manager's may be in a folder that the embedded kernel's user
# cannot read.
choose_python() {
  local candidate
  for candidate in /usr/bin/python3 python3 python3.13 python3.12 python3.11; do
    if command -v "$candidate" >/dev/null && is_new_enough "$candidate"; then
      command -v "$candidate"
      return
    fi
  done
  say "Python 3.11 or later is needed; next: install the package python3 of Debian 12, Ubuntu 24.04 or later"
  return 3
}

# The folder is included, because a copied or moved environment still starts the programs of the old one.
inputs_hash() {
  { printf '%s\n' "$PWD" "$1" && cat "requirements/$1.txt" pyproject.toml provision/host/venv.sh; } | sha256sum
}

is_ready() {
  local kind
  # After an upgrade of the distribution, python is a different release, which does not find the old one's packages.
  "$venv/bin/python" -I -c 'import lab' 2>/dev/null || return 1
  for kind in "$@"; do
    [[ -f $venv/ready-$kind && "$(<"$venv/ready-$kind")" == "$(inputs_hash "$kind")" ]] && return
  done
  return 1
}

pip_install() {
  # Without compiled files, every start of raidlab takes a second longer.
  "$venv/bin/python" -I -m pip install --quiet --no-input --disable-pip-version-check "$@" >&2
}

make_venv() {
  local kind="$1" python
  python="$(choose_python)"
  say "setting up $venv ($kind) with $python"
  # The marks are removed first, because an interrupted set-up must not look complete.
  rm -f "$venv"/ready-*
  if ! is_new_enough "$venv/bin/python" || ! "$venv/bin/python" -I -m pip --version 2>/dev/null | grep -qF "$PWD/$venv/"; then
    "$python" -I -m venv --clear "$venv"
  fi
  pip_install --require-hashes --only-binary=:all: -r "requirements/$kind.txt" || {
    say "the requirements could not be installed; next: look at the network (or a proxy's settings), then run make again"
    return 1
  }
  pip_install --no-deps --no-build-isolation --no-index --editable .
  "$venv/bin/python" -I -m compileall -q lab tui >&2 || true
  inputs_hash "$kind" >"$venv/ready-$kind"
}

main() {
  local kind="$1"
  # If two makes run at the same time, there is only one set-up. The lock is on the folder, and ends with the process.
  exec 9<.
  flock 9 || say "no lock, because this file system has none: do not run two of these at once"
  case $kind in
  runtime) is_ready runtime cluster dev || make_venv runtime ;;
  cluster) is_ready cluster dev || make_venv cluster ;;
  *) is_ready dev || make_venv dev ;;
  esac
}

main "$@"
