#!/usr/bin/env bash
# An array with a bitmap grows to the size of larger members, and is stopped before the new part is synced: does md sync it afterwards?
# As root: [LEVEL=1] [BITMAP=internal] larger-array-bitmap.sh MEMBER MEMBER...   (8 MiB or more each; all data on them is lost)
#   LEVEL   the array's level (1)
#   BITMAP  the array's bitmap (internal); none is the control
# Exit status: 0 the members still differ in the new part (reproduced), 1 it is synced (refuted), 2 this could not be tried.
set -euo pipefail
export LC_ALL=C PATH="$PATH:/usr/sbin:/sbin" DM_DISABLE_UDEV=1 MDADM_NO_UDEV=1
readonly array=/dev/md119 sysfs=/sys/block/md119/md
verdict=2

clean_up() {
  mdadm --quiet --stop "$array" 2>/dev/null || true
  udevadm control --start-exec-queue 2>/dev/null || true
  exit "$verdict"
}

idle() { until [[ $(<"$sysfs/sync_action") == idle ]]; do sleep 0.2; done; }

# Waits until all of the array is in sync. A pending sync may not have started yet, so an idle array is not enough.
synced() {
  until [[ $(<"$sysfs/resync_start") == none ]]; do sleep 0.2; done
  idle
}

# Prints how many bits are set in the bitmap on the members, or nothing without a bitmap.
dirty() { mdadm --examine-bitmap "$1" 2>/dev/null | sed -nE 's/.*Bitmap : .* ([0-9]+) dirty.*/\1/p'; }

# Where mdadm's package sets start_ro (md(4)), an array is read-auto until its first write; elsewhere it is active immediately.
writable() { [[ $(<"$sysfs/array_state") != read-auto ]] || mdadm --readwrite "$array"; }

main() {
  (($# >= 2)) || { sed -n '2,6s/^# //p' "$0" >&2 && exit 2; }
  [[ ! -e $sysfs ]] || { echo "$array is in use" >&2 && exit 2; }
  trap clean_up EXIT
  udevadm control --stop-exec-queue 2>/dev/null || true
  echo "$(uname -sr), $(mdadm --version 2>&1)"
  local device mismatches
  for device; do
    dd if=/dev/zero of="$device" bs=1M count=2 oflag=direct status=none
    dd if=/dev/urandom of="$device" bs=1M count=6 seek=2 iflag=fullblock oflag=direct status=none
  done
  # The first 2 MiB of each member's data are synced, and remain so.
  mdadm --quiet --create "$array" --run --level="${LEVEL:-1}" --raid-devices=$# --bitmap="${BITMAP:-internal}" --size=2M --data-offset=2M "$@"
  synced
  until [[ $(dirty "$1") == @(|0) ]]; do sleep 0.5; done
  echo 0 >"$sysfs/sync_max"
  mdadm --quiet --grow "$array" --size=4M
  sleep 1
  echo "before the stop: $(<"$sysfs/sync_action"), resync_start $(<"$sysfs/resync_start")"
  mdadm --quiet --stop "$array"
  mdadm --examine-bitmap "$1" 2>/dev/null | grep 'Bitmap :' || true
  mdadm --quiet --assemble "$array" "$@"
  writable
  synced
  echo "afterwards: $(<"$sysfs/sync_action"), resync_start $(<"$sysfs/resync_start")"
  echo check >"$sysfs/sync_action"
  idle
  mismatches="$(<"$sysfs/mismatch_cnt")"
  echo "mismatches that a check counts, in sectors: $mismatches"
  ((mismatches)) && verdict=0 || verdict=1
}

main "$@"
