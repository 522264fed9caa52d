#!/bin/bash
# Overlays over disks: whatever is tried on them, the disks stay as they are.
# Usage: overlays up DEVICE...   makes /dev/mapper/over-NAME for each
#        overlays list           what there is, and how full each is
#        overlays down           takes all away; first stop the arrays on them
# Each is a device-mapper snapshot (dmsetup(8), Documentation/admin-guide/device-mapper/snapshot.rst): reads come from the
# disk, writes go to a file in memory.
set -euo pipefail

readonly folder=/run/raidlab/overlays

say() { printf 'overlays: %s\n' "$*" >&2; }

up() {
  local device name sectors loop
  (($#)) || { say "name the disks: overlays up /dev/ubda /dev/ubdb" && return 2; }
  modprobe -qa loop dm-snapshot || true
  mkdir -p "$folder"
  for device; do
    name="$(basename "$device")"
    sectors="$(blockdev --getsz "$device")"
    if [[ ! -e /dev/mapper/over-$name ]]; then
      truncate -s $((sectors * 512 + 1048576)) "$folder/$name"
      loop="$(losetup --find --show "$folder/$name")"
      dmsetup create "over-$name" --table "0 $sectors snapshot $device $loop N 8"
    fi
    printf '/dev/mapper/over-%s\n' "$name"
  done
}

list() { dmsetup status --target snapshot; }

down() {
  local path name status=0
  for path in "$folder"/*; do
    [[ -e $path ]] || continue
    name="$(basename "$path")"
    if [[ -e /dev/mapper/over-$name ]] && ! dmsetup remove --retry "over-$name"; then
      say "over-$name is in use: stop the array on it, or unmount it"
      status=1
      continue
    fi
    losetup --associated "$path" | cut -d: -f1 | xargs -r losetup --detach
    rm -f "$path"
  done
  return "$status"
}

case "${1:-}" in
up | list | down) "$@" ;;
*)
  sed -n '2,5s/^# //p' "$0" >&2
  exit 2
  ;;
esac
