#!/usr/bin/env bash
# Makes this Debian or Ubuntu machine a lab. md is left to the lab, and packages, kernel modules, raidlab and a message
# of the day are installed. The bake runs this in each image, "vagrant provision" in a running machine, and you on a
# physical one. It is safe to run again.
# Usage, as root: prepare.sh WHEELHOUSE      (a folder made by provision/host/wheelhouse.sh on a computer with network)
set -euo pipefail

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
readonly here

main() {
  local wheelhouse="${1:-}"
  if [[ -z $wheelhouse || ! -d $wheelhouse ]]; then
    printf 'prepare: no folder of wheels: "%s"; next: make one with provision/host/wheelhouse.sh FOLDER\n' "$wheelhouse" >&2
    return 2
  fi
  ((EUID == 0)) || {
    printf 'prepare: this needs root; next: sudo %s %s\n' "$0" "$wheelhouse" >&2
    return 3
  }
  "$here/arrays.sh"
  "$here/packages.sh"
  "$here/kernel.sh"
  "$here/install-raidlab.sh" "$wheelhouse"
  "$here/motd.sh"
}

main "$@"
