#!/usr/bin/env bash
# Looks for the kernel modules in modules.txt and, if it exists for this architecture, in modules-MACHINE.txt.
# Exit 3: this kernel lacks some.
set -euo pipefail

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
readonly here

say() { printf 'kernel: %s\n' "$*" >&2; }

wanted() { cat "$here/modules.txt" "$here/modules-$(uname -m).txt" 2>/dev/null | sed -e 's/#.*//' -e '/^\s*$/d'; }

lacking() {
  local module
  while read -r module; do
    # modinfo also finds built-in modules.
    /sbin/modinfo "$module" >/dev/null 2>&1 || printf '%s\n' "$module"
  done < <(wanted)
}

main() {
  local modules
  mapfile -t modules < <(lacking)
  ((${#modules[@]} == 0)) || {
    say "the kernel $(uname -r) has no ${modules[*]}"
    say "next: install the distribution's full kernel (Debian: linux-image-amd64 or -arm64, Ubuntu: linux-image-generic), boot it, run this again"
    return 3
  }
}

main "$@"
