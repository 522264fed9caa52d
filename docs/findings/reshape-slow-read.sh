#!/usr/bin/env bash
# `mdadm --grow` adds a member to a RAID 5 while reads of one chunk of one member are slow: is the data intact?
# As root: [ROW=0] [DELAY_MS=500] [GROW=OPTIONS] reshape-slow-read.sh MEMBER MEMBER MEMBER MEMBER NEW   (32 MiB or more each; all data on them is lost)
#   ROW   the row of the slow chunk on member 0 (0); the new layout overwrites rows 0 to 2 first
#   GROW  more options of `mdadm --grow`, such as --backup-file=FILE, with which the data offset does not change
# Exit status: 0 data was overwritten before it was read (reproduced), 1 all data is intact (refuted), 2 this could not be tried.
set -euo pipefail
export LC_ALL=C PATH="$PATH:/usr/sbin:/sbin" DM_DISABLE_UDEV=1 MDADM_NO_UDEV=1
readonly array=/dev/md119 sysfs=/sys/block/md119/md name=finding0 chunk_kib=64 offset=4096
readonly row="${ROW:-0}" delay="${DELAY_MS:-500}"
blocks=0 verdict=2

clean_up() {
  mdadm --quiet --stop "$array" 2>/dev/null || true
  dmsetup remove "$name" 2>/dev/null || true
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

# Prints the number that a block of the array contains, or that it contains none.
content() {
  local text
  text="$(dd if="$array" bs=4k skip="$1" count=1 iflag=direct status=none | tr -c '0-9\n' '-')"
  [[ $text =~ ^0*([0-9]+)$ ]] && echo "${BASH_REMATCH[1]}" || echo "no number"
}

create() {
  for device; do dd if=/dev/zero of="$device" bs=1M count=4 oflag=direct status=none; done
  dmsetup create "$name" --table "0 $(blockdev --getsz "$1") linear $1 0"
  mdadm --quiet --create "$array" --run --level=5 --chunk="$chunk_kib" --raid-devices=4 --assume-clean --bitmap=none --size=4M \
    --data-offset=$((offset / 2))K "/dev/mapper/$name" "${@:2:3}"
  blocks=$(($(blockdev --getsize64 "$array") / 4096))
  numbers | dd of="$array" bs=64k iflag=fullblock oflag=direct status=none
  # Shrink md's stripe cache once, so that none of the blocks remains in it.
  echo 17 >"$sysfs/stripe_cache_size"
  echo 256 >"$sysfs/stripe_cache_size"
}

# Delays reads of one chunk of the first member.
slow_chunk() {
  local first=$((offset + row * chunk_kib * 2)) length=$((chunk_kib * 2))
  local after=$((first + length))
  printf '%s\n' "0 $first linear $1 0" "$first $length delay $1 $first $delay $1 $first 0" \
    "$after $(($(blockdev --getsz "$1") - after)) linear $1 $after" | dmsetup reload "$name"
  dmsetup resume "$name"
}

# reshape_position is set from the request for a reshape until its end, even before the reshape's thread runs.
idle() { until [[ $(<"$sysfs/sync_action") == idle && $(<"$sysfs/reshape_position") == none ]]; do sleep 0.2; done; }

offsets() { mdadm --examine "$1" | sed -nE 's/^ +(Data Offset|New Offset|Reshape pos.n) : ([0-9]+).*/  \1: \2/p' | paste -sd ' '; }

main() {
  (($# == 5)) || { sed -n '2,5s/^# //p' "$0" >&2 && exit 2; }
  [[ ! -e $sysfs ]] || { echo "$array is in use" >&2 && exit 2; }
  trap clean_up EXIT
  udevadm control --stop-exec-queue 2>/dev/null || true
  echo "$(uname -sr), $(mdadm --version 2>&1)"
  create "$@"
  echo "before:$(offsets "$2")"
  slow_chunk "$1"
  echo "reads of row $row of member 0 take $delay ms"
  mdadm --quiet "$array" --add "$5"
  # shellcheck disable=SC2086
  mdadm --grow "$array" --raid-devices=5 ${GROW:-}
  echo "begun: $(offsets "$2")"
  idle
  echo "ended: $(offsets "$2")"
  local wrong block
  wrong="$(wrong)"
  [[ $wrong ]] && verdict=0 || verdict=1
  echo "blocks of 4 KiB that do not hold what was written: $(wc -w <<<"$wrong") of $blocks"
  for block in $(sed -n '1p;$p' <<<"$wrong" | xargs); do echo "  block $block holds: $(content "$block")"; done
  echo max >"$sysfs/sync_max"
  echo check >"$sysfs/sync_action"
  idle
  echo "mismatches that a check counts, in sectors: $(<"$sysfs/mismatch_cnt")"
}

main "$@"
