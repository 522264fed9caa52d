#!/usr/bin/env bash
# Rewrites requirements/*.txt with the version and the hashes of every package. The files list only wheels, and are the
# same for every supported Python.
set -euo pipefail

readonly uv_version="0.13.8"
scratch=""

lock() {
  local target="$1"
  shift
  # The header replaces uv's own, which would contain this computer's paths.
  {
    printf '# Written by "make lock" from pyproject.toml; installed with --require-hashes --only-binary=:all:\n'
    env -u UV_INDEX_URL -u UV_FIND_LINKS "$scratch/bin/uv" pip compile --quiet --universal --python-version 3.11 --upgrade \
      --generate-hashes --only-binary :all: --no-annotate --no-header "$@" pyproject.toml
  } >"$scratch/locked.txt"
  if grep -qE '://|^--' "$scratch/locked.txt"; then
    printf 'lock: %s would name a host; nothing written\n' "$target" >&2
    return 1
  fi
  cp "$scratch/locked.txt" "$target"
}

main() {
  cd "$(dirname "${BASH_SOURCE[0]}")/../.."
  scratch="$(mktemp -d)"
  trap 'rm -rf "$scratch"' EXIT
  python3 -I -m venv "$scratch"
  "$scratch/bin/pip" install --quiet "uv==$uv_version"
  lock requirements/runtime.txt --extra build --extra web --extra classroom --extra report
  lock requirements/cluster.txt --extra build --extra web --extra classroom --extra report --extra cluster \
    --constraint requirements/runtime.txt
  lock requirements/dev.txt --extra build --extra web --extra classroom --extra report --extra cluster --extra dev \
    --constraint requirements/cluster.txt
}

main "$@"
