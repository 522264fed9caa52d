#!/usr/bin/env bash
# A RAID 10 is stopped in the middle of a reshape and assembled read-only: is its data intact?
# As root: reshape-read-only.sh MEMBER MEMBER MEMBER MEMBER NEW   (32 MiB or more each; all data on them is lost)
# Exit status: 0 it reads wrong data (reproduced), 1 all data is intact (refuted), 2 this could not be tried.
set -euo pipefail
export LC_ALL=C PATH="$PATH:/usr/sbin:/sbin" DM_DISABLE_UDEV=1 MDADM_NO_UDEV=1
readonly array=/dev/md119 sysfs=/sys/block/md119/md
blocks=0 verdict=2

clean_up() {
  mdadm --quiet --stop "$array" 2>/dev/null || true
  udevadm control --start-exec-queue 2>/dev/null || true
  exit "$verdict"
}

# Each block of 4 KiB contains its own number as 4095 digits and a line feed.
numbers() { seq -f '%04095.0f' 0 $((blocks - 1)); }

# Prints the blocks that do not contain their number. Every correct block ends with a line feed, whatever precedes the block.
wrong() {
  tr '\0' - <"$array" | awk -v blocks="$blocks" '
    BEGIN { zeros = sprintf("%04095d", 0) }
    {
      end += length($0) + 1
      n = end / 4096 - 1
      if (n == int(n) && substr($0, length($0) - 4094) == substr(zeros, length(n) + 1) n) right[n] = 1
    }
    END { for (n = 0; n < blocks; n++) if (!(n in right)) print n }'
}

speed() { for file in sync_speed_max sync_speed_min; do echo "$1" >"$sysfs/$file"; done; }

# reshape_position is set from the request for a reshape until its end, even before the reshape's thread runs.
idle() { until [[ $(<"$sysfs/sync_action") == idle && $(<"$sysfs/reshape_position") == none ]]; do sleep 0.2; done; }

# Prints how many KiB of each member have been reshaped, or nothing if no reshape is running.
reshaped() { if [[ $(</proc/mdstat) =~ reshape\ =.*\(([0-9]+)/ ]]; then echo "${BASH_REMATCH[1]}"; fi; }

main() {
  (($# == 5)) || { sed -n '2,4s/^# //p' "$0" >&2 && exit 2; }
  [[ ! -e $sysfs ]] || { echo "$array is in use" >&2 && exit 2; }
  trap clean_up EXIT
  udevadm control --stop-exec-queue 2>/dev/null || true
  echo "$(uname -sr), $(mdadm --version 2>&1)"
  local device lost
  for device; do dd if=/dev/zero of="$device" bs=1M count=4 oflag=direct status=none; done
  mdadm --quiet --create "$array" --run --level=10 --raid-devices=4 --chunk=64 --assume-clean --bitmap=none --size=8M --data-offset=4M "${@:1:4}"
  blocks=$(($(blockdev --getsize64 "$array") / 4096))
  numbers | dd of="$array" bs=64k iflag=fullblock oflag=direct status=none
  mdadm --quiet "$array" --add "$5"
  speed 1000
  mdadm --grow "$array" --raid-devices=5
  until (($(reshaped) >= 2000)); do sleep 0.1; done
  mdadm --quiet --stop "$array"
  mdadm --examine "$1" | grep -E 'Data Offset|New Offset|Reshape pos'
  mdadm --quiet --assemble --readonly "$array" "$@"
  lost="$(wrong | wc -l)"
  echo "$(<"$sysfs/array_state"): blocks of 4 KiB that do not hold what was written: $lost of $blocks"
  mdadm --readwrite "$array"
  speed 200000
  idle
  echo "after the reshape: $(wrong | wc -l) of $blocks"
  ((lost)) && verdict=0 || verdict=1
}

main "$@"
