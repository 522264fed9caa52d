#!/usr/bin/env bash
# A RAID 5 is rebuilding onto a spare, and another member becomes faulty: does md count the spare as a member in sync?
# As root: failure-in-rebuild.sh MEMBER MEMBER MEMBER SPARE   (16 MiB or more each; all data on them is lost)
# Exit status: 0 the spare counts as a member in sync (reproduced), 1 it remains a spare (refuted), 2 this could not be tried.
set -euo pipefail
export LC_ALL=C PATH="$PATH:/usr/sbin:/sbin" DM_DISABLE_UDEV=1 MDADM_NO_UDEV=1
readonly array=/dev/md119 sysfs=/sys/block/md119/md
blocks=0 verdict=2 copy=""

clean_up() {
  mdadm --quiet --stop "$array" 2>/dev/null || true
  rm -f "$copy"
  udevadm control --start-exec-queue 2>/dev/null || true
  exit "$verdict"
}

# Each block of 4 KiB contains its own number as 4095 digits and a line feed.
numbers() { seq -f '%04095.0f' 0 $((blocks - 1)); }

# Prints the blocks that do not contain their number. Every correct block ends with a line feed, whatever precedes the block.
wrong() {
  tr '\0' - <"$copy" | awk -v blocks="$blocks" '
    BEGIN { zeros = sprintf("%04095d", 0) }
    {
      end += length($0) + 1
      n = end / 4096 - 1
      if (n == int(n) && substr($0, length($0) - 4094) == substr(zeros, length(n) + 1) n) right[n] = 1
    }
    END { for (n = 0; n < blocks; n++) if (!(n in right)) print n }'
}

# Prints how many blocks of the running array are wrong. An unreadable block is replaced with zeros in the copy, so it counts as wrong.
lost() {
  dd if="$array" of="$copy" bs=4k iflag=direct conv=noerror,sync status=none 2>/dev/null || true
  wrong | wc -l
}

# Waits until no rebuild has been running for two seconds, which is longer than md needs to start one.
settle() {
  local calm=0
  until ((calm == 20)); do
    [[ $(<"$sysfs/sync_action") == idle ]] && calm=$((calm + 1)) || calm=0
    sleep 0.1
  done
}

# Prints how many KiB of the spare have been rebuilt, or nothing if no rebuild is running.
rebuilt() { if [[ $(</proc/mdstat) =~ recovery\ =.*\(([0-9]+)/ ]]; then echo "${BASH_REMATCH[1]}"; fi; }

# try DEVICE...: assembles the array from these devices with --force.
try() {
  mdadm --assemble --force --run "$array" "$@" 2>&1
  echo "blocks of 4 KiB that do not hold what was written: $(lost) of $blocks"
  mdadm --quiet --stop "$array"
}

main() {
  (($# == 4)) || { sed -n '2,4s/^# //p' "$0" >&2 && exit 2; }
  [[ ! -e $sysfs ]] || { echo "$array is in use" >&2 && exit 2; }
  trap clean_up EXIT
  udevadm control --stop-exec-queue 2>/dev/null || true
  echo "$(uname -sr), $(mdadm --version 2>&1)"
  local device state
  copy="$(mktemp)"
  for device; do dd if=/dev/zero of="$device" bs=1M count=12 oflag=direct status=none; done
  mdadm --quiet --create "$array" --run --level=5 --raid-devices=3 --assume-clean --bitmap=none --size=2M --data-offset=2M "$1" "$2" "$3"
  blocks=$(($(blockdev --getsize64 "$array") / 4096))
  numbers | dd of="$array" bs=64k iflag=fullblock oflag=direct status=none
  mdadm --quiet "$array" --fail "$3"
  echo 200 >"$sysfs/sync_speed_max"
  echo 100 >"$sysfs/sync_speed_min"
  mdadm --quiet "$array" --add "$4"
  until (($(rebuilt) >= 512)); do sleep 0.1; done
  echo "the member fails at $(rebuilt) KiB of the rebuild"
  # md returns EBUSY, but marks the member faulty all the same.
  echo faulty 2>/dev/null >"$sysfs/dev-${2#/dev/}/state" || true
  until [[ $(<"$sysfs/dev-${2#/dev/}/state") == *faulty* ]]; do sleep 0.1; done
  sleep 1
  echo 5000 >"$sysfs/sync_speed_max"
  settle
  state="$(<"$sysfs/dev-${4#/dev/}/state")"
  [[ $state == *in_sync* ]] && verdict=0 || verdict=1
  echo "the spare: $state, $(wc -l <"$sysfs/dev-${4#/dev/}/bad_blocks") bad blocks on its list; degraded: $(<"$sysfs/degraded")"
  grep -A 1 "^${array#/dev/}" /proc/mdstat
  mdadm --quiet --stop "$array"
  for device in "$1" "$2" "$4"; do
    echo "$device: $(mdadm --examine "$device" | sed -nE 's/^ *(Events) : /\1 /p; s/^ *(Device Role) : /\1 /p' | paste -sd ,)"
  done
  echo "all three by force:"
  try "$1" "$2" "$4"
  echo "without the spare:"
  try "$1" "$2"
}

main "$@"
