#!/usr/bin/env bash
# Makes a folder of wheels from which raidlab is installed on machines without network. It contains the locked
# requirements for every Python that a supported distribution has, and raidlab itself as it is in this clone. Each set
# of requirements is downloaded only once.
# Usage: wheelhouse.sh FOLDER [amd64|arm64]      default: amd64
set -euo pipefail

cd -P "$(dirname "${BASH_SOURCE[0]}")/../.."
# shellcheck source=provision/host/wheels.sh
source provision/host/wheels.sh
# shellcheck source=provision/host/own-folder.sh
source provision/host/own-folder.sh
readonly pythons=(3.11 3.12 3.13)
readonly cache="${XDG_CACHE_HOME:-$HOME/.cache}/raidlab/wheels"

say() { printf 'wheels: %s\n' "$*" >&2; }

umask go-w

# Prints a hash of all inputs of the downloads.
key() { { cat requirements/runtime.txt provision/host/{wheelhouse,wheels}.sh && echo "$1"; } | sha256sum | cut -c 1-16; }

download() {
  local folder="$1" architecture="$2" python options
  for python in "${pythons[@]}"; do
    say "downloading for Python $python"
    mapfile -t options < <(wheels_for "$python" "$architecture")
    pip download --require-hashes --no-deps --dest "$folder" --requirement requirements/runtime.txt "${options[@]}" || {
      say "the wheels could not be downloaded; next: look at the network (or a proxy's settings), then run this again"
      return 1
    }
  done
}

main() {
  local target="${1:?a folder}" architecture="${2:-amd64}" kept folder
  wheels_for 3.11 "$architecture" >/dev/null || {
    say "no wheels for '$architecture'; next: wheelhouse.sh FOLDER amd64, or arm64"
    return 2
  }
  target="$(realpath --canonicalize-missing "$target")"
  for folder in "$target" "$target.new"; do
    is_free_or_own "$folder" '*.whl' || {
      say "$folder contains other files; next: give a new folder"
      return 2
    }
  done
  provision/host/venv.sh runtime
  kept="$cache/$(key "$architecture")"
  mkdir -p "$cache" "$(dirname "$target")"
  exec 9>"$cache/lock"
  flock 9
  if [[ ! -d $kept ]]; then
    rm -rf "$cache/new"
    mkdir "$cache/new"
    download "$cache/new" "$architecture"
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
