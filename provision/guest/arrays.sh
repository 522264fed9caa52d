#!/usr/bin/env bash
# Leaves md to the lab, so that there is no automatic assembly of arrays, no monitor, no mail, and no monthly check
# during a measurement. raidlab finds the arrays on the lab's disks, and starts them on request. If this runs before
# mdadm is installed, the initramfs is built only once. On a computer that has its own arrays it changes nothing,
# because the computer may boot from one.
set -euo pipefail

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
readonly here
readonly mark="# raidlab: "
readonly units=(mdmonitor.service mdmonitor-oneshot.timer mdmonitor-oneshot.service mdcheck_start.timer
  mdcheck_continue.timer mdadm-waitidle.service)

say() { printf 'arrays: %s\n' "$*" >&2; }

has_own_arrays() {
  ! grep -qsF "$mark" /etc/mdadm/mdadm.conf || return 1
  grep -qs '^md' /proc/mdstat || grep -qsiE '^\s*ARRAY\s' /etc/mdadm/mdadm.conf /etc/mdadm/mdadm.conf.d/*
}

# Prints the target if it was changed.
put() {
  cmp -s "$1" "$2" || { install -D -m 644 "$1" "$2" && printf '%s\n' "$2"; }
}

main() {
  local changed
  if has_own_arrays; then
    say "this computer has its own arrays, so they and the lab's are still assembled and monitored as before"
    return
  fi
  changed="$(
    put "$here/files/mdadm.conf" /etc/mdadm/mdadm.conf
    put "$here/files/64-md-raid-assembly.rules" /etc/udev/rules.d/64-md-raid-assembly.rules
  )"
  put "$here/files/mdadm.default" /etc/default/mdadm >/dev/null
  # While a base disk is created, this runs before systemd is installed, and again afterwards.
  ! command -v systemctl >/dev/null || systemctl mask --quiet --now "${units[@]}" 2>/dev/null || systemctl mask --quiet "${units[@]}"
  [[ -z $changed ]] || {
    say "arrays are no longer assembled automatically"
    udevadm control --reload 2>/dev/null || true
    # The initramfs contains copies of the configuration and of the rule.
    [[ ! -x /usr/sbin/update-initramfs || ! -x /sbin/mdadm ]] || update-initramfs -u >/dev/null
  }
}

main "$@"
