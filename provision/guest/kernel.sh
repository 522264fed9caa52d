#!/usr/bin/env bash
# Looks for the kernel modules of modules.txt, and lets nbd be loaded with the disks that spindles need.
# Exit 3: this kernel lacks some.
set -euo pipefail

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
readonly here

say() { printf 'kernel: %s\n' "$*" >&2; }

wanted() { sed -e 's/#.*//' -e '/^\s*$/d' "$here/modules.txt"; }

lacking() {
  local module
  while read -r module; do
    # Answers for built-in modules too.
    /sbin/modinfo "$module" >/dev/null 2>&1 || printf '%s\n' "$module"
  done < <(wanted)
}

main() {
  local modules
  mapfile -t modules < <(lacking)
  ((${#modules[@]} == 0)) || {
    say "the kernel $(uname -r) has no ${modules[*]}"
    say "next: install the distribution's full kernel (Debian: linux-image-amd64, Ubuntu: linux-image-generic), boot it, run this again"
    return 3
  }
}

main "$@"
