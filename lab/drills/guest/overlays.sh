#!/bin/bash
# Put overlays over disks. You can try anything on an overlay, and the disk below it stays unchanged.
# Usage: overlays up DEVICE...   creates /dev/mapper/over-NAME for each device
#        overlays list           lists the overlays, and how full each one is
#        overlays down           removes all overlays; stop the arrays on them first
# Each overlay is a device-mapper snapshot (Documentation/admin-guide/device-mapper/snapshot.rst, dmsetup(8)). Reads
# come from the disk, and writes go to a file in memory.
set -euo pipefail

readonly folder=/run/raidlab/overlays

say() { printf 'overlays: %s\n' "$*" >&2; }

# Print what holds a device, and the command that releases it. Device mapper does not accept a device that is in use.
in_use() {
  local name="$1" holder text="" state
  for holder in "/sys/class/block/$name/holders"/*; do
    [[ -e $holder ]] || continue
    holder="$(basename "$holder")"
    case "$holder" in
    md*)
      state="$(cat "/sys/block/$holder/md/array_state" 2>/dev/null || echo unknown)"
      text+="$name is held by $holder ($state): mdadm --stop /dev/$holder"$'\n'
      ;;
    dm-*) text+="$name is held by $(cat "/sys/block/$holder/dm/name"): dmsetup remove $(cat "/sys/block/$holder/dm/name")"$'\n' ;;
    *) text+="$name is held by $holder"$'\n' ;;
    esac
  done
  if findmnt -n -S "/dev/$name" >/dev/null; then text+="$name is mounted: umount /dev/$name"$'\n'; fi
  printf '%s' "$text"
}

up() {
  local device name sectors loop held line
  (($#)) || { say "give the disks, for example: overlays up /dev/ubda /dev/ubdb" && return 2; }
  modprobe -qa loop dm-snapshot || true
  mkdir -p "$folder"
  for device; do
    name="$(basename "$device")"
    [[ -b $device ]] || { say "$device is not a disk on this machine" && return 2; }
    if [[ ! -e /dev/mapper/over-$name ]]; then
      held="$(in_use "$(basename "$(readlink -f "$device")")")"
      if [[ -n $held ]]; then
        while read -r line; do say "$line first"; done <<<"$held"
        return 1
      fi
    fi
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
  local path name held line status=0
  for path in "$folder"/*; do
    [[ -e $path ]] || continue
    name="$(basename "$path")"
    if [[ -e /dev/mapper/over-$name ]] && ! dmsetup remove --retry "over-$name" 2>/dev/null; then
      held="$(in_use "$(basename "$(readlink -f "/dev/mapper/over-$name")")")"
      while read -r line; do say "${line:-over-$name is in use}"; done <<<"$held"
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
