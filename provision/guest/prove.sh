#!/usr/bin/env bash
# Proves that the lab works by using raidlab the way a student would. It builds, fails, rebuilds, checks and removes
# arrays on the lab disks, and leaves the disks blank. Usage, as a user with sudo: prove.sh
set -euo pipefail

say() { printf 'prove: %s\n' "$*"; }
fail() {
  say "FAILED: $*" >&2
  exit 1
}

lab() { raidlab --on local: --quiet "$@"; }

sync_is_idle() { [[ "$(cat "/sys/block/$1/md/sync_action")" == idle && "$(cat "/sys/block/$1/md/degraded")" == 0 ]]; }

prove_array() {
  local name="$1" level="$2" disks="$3" spare="$4" sum
  say "RAID $level on $disks"
  lab array create --name "$name" --level "$level" --disks "$disks" --wait >/dev/null
  sudo dd if=/dev/urandom of="/dev/$name" bs=1M count=16 oflag=direct status=none
  sum="$(sudo dd if="/dev/$name" bs=1M count=16 iflag=direct status=none | sha256sum)"
  lab array fail "$name" "${disks%%,*}"
  [[ "$(cat "/sys/block/$name/md/degraded")" == 1 ]] || fail "$name is not degraded after a failed disk"
  lab array remove "$name" "${disks%%,*}"
  lab array add "$name" "$spare" --wait
  sync_is_idle "$name" || fail "$name has not been rebuilt"
  lab array stop "$name"
  [[ ! -e /sys/block/$name ]] || fail "$name is still there after stop"
  lab array assemble "$name" || {
    lab array show --json >&2 || true
    sudo mdadm --examine /dev/vd[b-h] >&2 || true
    sync
    lab array assemble "$name" >&2 || true
    fail "$name cannot be assembled"
  }
  [[ "$(sudo dd if="/dev/$name" bs=1M count=16 iflag=direct status=none | sha256sum)" == "$sum" ]] || fail "$name lost data"
  lab array destroy "$name"
}

main() {
  local system
  say "$(raidlab --version) on $(uname -r)"
  lab doctor | tail -n 1
  [[ "$(lsblk -dno SERIAL | grep -c '^RAIDLAB-')" -ge 4 ]] || fail "the lab disks are not attached"
  system="/dev/$(lsblk -no PKNAME "$(findmnt -no SOURCE /)")"
  if lab disks reset "$system" >/dev/null 2>&1; then fail "the system disk $system was not refused"; fi
  prove_array md0 1 disk01,disk02 disk03
  prove_array md1 5 disk04,disk05,disk06 disk07
  ! grep -q '^md' /proc/mdstat || fail "an array is left"
  [[ -z "$(sudo blkid -s TYPE -o value /dev/disk/by-id/virtio-RAIDLAB-*)" ]] || fail "a lab disk is not blank"
  say "the lab works"
}

main "$@"
