#!/usr/bin/env bash
# Compiles the library with which an embedded kernel starts on a processor with AMX: wide_registers.c tells why.
# Usage: build-registers.sh FILE
set -euo pipefail

here="$(cd -P "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
readonly here

main() {
  local target="$1"
  "$here/../host/packages.sh" registers
  mkdir -p "$(dirname "$target")"
  gcc -O2 -shared -fPIC -o "$target.new" "$here/wide_registers.c"
  mv "$target.new" "$target"
}

main "$@"
