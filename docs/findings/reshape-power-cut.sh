#!/usr/bin/env bash
# The power fails while `mdadm --grow` changes the layout of a RAID 5; this moves the data offset, so it needs no backup file: is the data intact?
# As root: [CUT=KIB] [GROW=OPTIONS] reshape-power-cut.sh MEMBER MEMBER MEMBER MEMBER COPY COPY COPY COPY   (32 MiB or more each; all data on them is lost)
#   CUT   the power fails when this many KiB of each member have been reshaped, at 1.5 MB/s: all members are suspended at one instant and copied (5000)
#   GROW  the options of `mdadm --grow` (--layout=right-asymmetric --data-offset=2M)
# Exit status: 0 data was lost (reproduced), 1 the reshape continued and all data is intact (refuted), 2 this could not be tried.
set -euo pipefail
export LC_ALL=C PATH="$PATH:/usr/sbin:/sbin" DM_DISABLE_UDEV=1 MDADM_NO_UDEV=1
readonly array=/dev/md119 sysfs=/sys/block/md119/md name=finding
blocks=0 verdict=2 layers=()

clean_up() {
  local layer
  for layer in "${layers[@]}"; do dmsetup resume "$layer" || true; done
  mdadm --quiet --stop "$array" 2>/dev/null || true
  for layer in "${layers[@]}"; do dmsetup remove "$layer" || true; done
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

create() {
  local number=0 device
  for device; do
    dd if=/dev/zero of="$device" bs=1M count=4 oflag=direct status=none
    dmsetup create "$name$number" --table "0 $(blockdev --getsz "$device") linear $device 0"
    layers+=("$name$number")
    number=$((number + 1))
  done
  mdadm --quiet --create "$array" --run --level=5 --chunk=64 --raid-devices=4 --assume-clean --bitmap=none --size=8M --data-offset=4M \
    "${layers[@]/#//dev/mapper/}"
  blocks=$(($(blockdev --getsize64 "$array") / 4096))
  numbers | dd of="$array" bs=64k iflag=fullblock oflag=direct status=none
}

speed() { for file in sync_speed_max sync_speed_min; do echo "$1" >"$sysfs/$file"; done; }

# reshape_position is set from the request for a reshape until its end, even before the reshape's thread runs.
is_idle() { [[ $(<"$sysfs/sync_action") == idle && $(<"$sysfs/reshape_position") == none ]]; }
idle() { until is_idle; do sleep 0.2; done; }

# Prints how many KiB of each member have been reshaped.
reshaped() { if [[ $(</proc/mdstat) =~ reshape\ =.*\(([0-9]+)/ ]]; then echo "${BASH_REMATCH[1]}"; else echo 0; fi; }

# Copies the contents that all members have at one instant. The original array then finishes its reshape, and is not used again.
cut_power() {
  local layer number state
  for layer in "${layers[@]}"; do dmsetup suspend --noflush --nolockfs "$layer"; done
  state="$(grep -o 'reshape = .*' /proc/mdstat || true)"
  for number in 1 2 3 4; do dd if="${!number}" of="${*:number+4:1}" bs=1M count=16 iflag=direct oflag=direct status=none; done
  for layer in "${layers[@]}"; do dmsetup resume "$layer"; done
  echo "at the cut: ${state:?the reshape had ended before}"
  speed 200000
  idle
  mdadm --quiet --stop "$array"
  for layer in "${layers[@]}"; do mdadm --quiet --zero-superblock "/dev/mapper/$layer"; done
}

# Where mdadm's package sets start_ro (md(4)), an array is read-auto until its first write; elsewhere it is active immediately.
writable() { [[ $(<"$sysfs/array_state") != read-auto ]] || mdadm --readwrite "$array"; }

main() {
  (($# == 8)) || { sed -n '2,5s/^# //p' "$0" >&2 && exit 2; }
  [[ ! -e $sysfs ]] || { echo "$array is in use" >&2 && exit 2; }
  trap clean_up EXIT
  udevadm control --stop-exec-queue 2>/dev/null || true
  echo "$(uname -sr), $(mdadm --version 2>&1)"
  create "${@:1:4}"
  speed 1500
  # shellcheck disable=SC2086
  mdadm --grow "$array" ${GROW:---layout=right-asymmetric --data-offset=2M}
  until (($(reshaped) >= ${CUT:-5000})) || is_idle; do sleep 0.1; done
  cut_power "$@"
  mdadm --examine "$5" | grep -E 'Data Offset|New Offset|Reshape pos'
  mdadm --assemble "$array" "${@:5}"
  writable
  speed 200000
  idle
  local wrong
  wrong="$(wrong)"
  [[ $wrong ]] && verdict=0 || verdict=1
  mdadm --detail "$array" | grep -E 'Layout|Chunk Size'
  echo "blocks of 4 KiB that do not hold what was written: $(wc -w <<<"$wrong") of $blocks"
  [[ ! $wrong ]] || echo "the first is $(head -n 1 <<<"$wrong"), the last $(tail -n 1 <<<"$wrong")"
}

main "$@"
