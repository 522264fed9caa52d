#!/usr/bin/env bash
# Installs what the lab needs, which is listed in packages/common.txt and, if they exist, in the lists of this
# distribution and release. If nothing is missing, it changes nothing and needs no network.
set -euo pipefail

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
readonly here

say() { printf 'packages: %s\n' "$*" >&2; }

# common, then debian or ubuntu, then debian-12, ubuntu-22.04 ...
lists() {
  local ID="" VERSION_ID="" name
  # shellcheck source=/dev/null
  source /etc/os-release
  for name in common "$ID" "$ID-$VERSION_ID"; do
    [[ ! -f $here/packages/$name.txt ]] || printf '%s\n' "$here/packages/$name.txt"
  done
}

# KERNEL in a list stands for the release of the running kernel.
wanted() {
  lists | xargs -d '\n' cat | sed -e 's/#.*//' -e '/^\s*$/d' -e "s/KERNEL/$(uname -r)/" | sort -u
}

missing() {
  comm -23 <(wanted) <(dpkg-query -W -f '${db:Status-Status} ${Package}\n' | sed -n 's/^installed //p' | sort -u)
}

main() {
  local names apt=(env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0 -o Acquire::Retries=3)
  mapfile -t names < <(missing)
  ((${#names[@]})) || return 0
  say "installing ${names[*]}"
  "${apt[@]}" update || say "apt-get update failed; trying with the existing package lists"
  "${apt[@]}" install --yes --no-install-recommends "${names[@]}" >/dev/null || {
    say "apt-get could not install them; next: check the network, then run this again"
    return 3
  }
}

main "$@"
