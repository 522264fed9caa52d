#!/usr/bin/env bash
# Makes a folder of wheels from which raidlab is installed on machines without network: its locked requirements for every
# Python that a supported distribution has, and raidlab itself as it is in this clone. Downloads once per set of requirements.
# Usage: wheelhouse.sh FOLDER [amd64|arm64]      left out: amd64
set -euo pipefail

cd -P "$(dirname "${BASH_SOURCE[0]}")/../.."
readonly pythons=(3.11 3.12 3.13)
readonly cache="${XDG_CACHE_HOME:-$HOME/.cache}/raidlab/wheels"

say() { printf 'wheels: %s\n' "$*" >&2; }

umask go-w
# shellcheck disable=SC2086
unset ${!PYTHON@}
export PYTHONNOUSERSITE=1

pip() { .venv/bin/python -I -m pip --quiet --no-input --disable-pip-version-check "$@" >&2; }

# All inputs of the downloads.
key() { { cat requirements/runtime.txt provision/host/wheelhouse.sh && echo "$1"; } | sha256sum | cut -c 1-16; }

download() {
  local folder="$1" machine="$2" python platform platforms=()
  for platform in manylinux_2_28 manylinux_2_17 manylinux2014; do
    platforms+=(--platform "${platform}_$machine")
  done
  for python in "${pythons[@]}"; do
    say "downloading for Python $python"
    pip download --require-hashes --only-binary=:all: --no-deps --dest "$folder" --requirement requirements/runtime.txt \
      --implementation cp --python-version "$python" --abi "cp${python/./}" --abi abi3 --abi none "${platforms[@]}" || {
      say "the wheels could not be downloaded; next: look at the network (or a proxy's settings), then run this again"
      return 1
    }
  done
}

main() {
  local target="${1:?a folder}" machine kept
  case "${2:-amd64}" in
  amd64) machine=x86_64 ;;
  arm64) machine=aarch64 ;;
  *)
    say "no wheels for '$2'; next: wheelhouse.sh FOLDER amd64, or arm64"
    return 2
    ;;
  esac
  target="$(realpath --canonicalize-missing "$target")"
  provision/host/venv.sh runtime
  kept="$cache/$(key "$machine")"
  mkdir -p "$cache" "$(dirname "$target")"
  exec 9>"$cache/lock"
  flock 9
  if [[ ! -d $kept ]]; then
    rm -rf "$cache/new"
    mkdir "$cache/new"
    download "$cache/new" "$machine"
    mv "$cache/new" "$kept"
  fi
  rm -rf "$target.new"
  mkdir "$target.new"
  cp "$kept"/*.whl "$target.new/"
  pip wheel --no-deps --no-build-isolation --no-index --wheel-dir "$target.new" .
  rm -rf "$target"
  mv "$target.new" "$target"
}

main "$@"
