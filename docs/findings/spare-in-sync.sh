#!/usr/bin/env bash
# The power fails while md assigns a spare to the slot of a failed member: does md rebuild the spare, or accept its old contents as data?
# As root: [LEVEL=5] [CREATE=OPTIONS] [LATE=1] spare-in-sync.sh MEMBER MEMBER MEMBER... SPARE   (16 MiB or more each; all data on them is lost)
#   LEVEL   the array's level (5); all devices but the last are its members, and the first one fails
#   CREATE  more options of `mdadm --create`, such as --layout=f2
#   LATE    as a control, the power fails only after the spare's superblock has been written too
# Exit status: 0 md accepts the blank spare as a member in sync (reproduced), 1 it does not (refuted), 2 this could not be tried.
set -euo pipefail
export LC_ALL=C PATH="$PATH:/usr/sbin:/sbin" DM_DISABLE_UDEV=1 MDADM_NO_UDEV=1
readonly array=/dev/md119 sysfs=/sys/block/md119/md name=finding0
verdict=2 superblocks=""

clean_up() {
  dmsetup resume "$name" 2>/dev/null || true
  mdadm --quiet --stop "$array" 2>/dev/null || true
  dmsetup remove "$name" 2>/dev/null || true
  [[ ! $superblocks ]] || rm -r "$superblocks"
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

idle() { until [[ $(<"$sysfs/sync_action") == idle ]]; do sleep 0.2; done; }

# Save the superblocks (metadata 1.2: 4 KiB at 4 KiB) that are on the media now to one file per device, and restore them.
save() { for device; do dd if="$device" of="$superblocks/${device##*/}" bs=4k skip=1 count=1 iflag=direct status=none; done; }
put_back() { for device; do dd if="$superblocks/${device##*/}" of="$device" bs=4k seek=1 count=1 oflag=direct status=none; done; }

roles() {
  local device
  for device; do
    echo "  ${device##*/}: $(mdadm --examine "$device" | sed -nE 's/^ +(Device Role|Events|Array State) : ([^(]*).*/\1 \2/p' | paste -sd ,)"
  done
}

# Saves all superblocks at the moment when the members' superblocks already give the slot to the spare, but the spare's own does not.
# Device mapper holds back all writes to the spare, beginning before the members' superblocks are written.
cut_power() {
  local before
  echo frozen >"$sysfs/sync_action"
  mdadm --quiet "$array" --fail "$1"
  until [[ $(<"$sysfs/array_state") == clean ]]; do sleep 0.1; done
  sleep 1
  save "$2" && before="$(sha256sum "$superblocks/${2##*/}")"
  dmsetup suspend --noflush --nolockfs "$name"
  echo 0 >"$sysfs/sync_max" # nothing is rebuilt
  echo idle >"$sysfs/sync_action"
  until save "$2" && [[ $(sha256sum "$superblocks/${2##*/}") != "$before" ]]; do sleep 0.1; done
  sleep 1
  save "$@"
  dmsetup resume "$name"
  [[ ! ${LATE:-} ]] || { sleep 1 && save "$@"; }
  mdadm --quiet --stop "$array"
  dmsetup remove "$name"
  put_back "$@"
}

# Where mdadm's package sets start_ro (md(4)), an array is read-auto until its first write; elsewhere it is active immediately.
writable() { [[ $(<"$sysfs/array_state") != read-auto ]] || mdadm --readwrite "$array"; }

main() {
  (($# >= 3)) || { sed -n '2,7s/^# //p' "$0" >&2 && exit 2; }
  [[ ! -e $sysfs ]] || { echo "$array is in use" >&2 && exit 2; }
  local members=("${@:1:$#-1}") spare="${*: -1}" state wrong block
  trap clean_up EXIT
  superblocks="$(mktemp -d)"
  udevadm control --stop-exec-queue 2>/dev/null || true
  echo "$(uname -sr), $(mdadm --version 2>&1)"
  for block; do dd if=/dev/zero of="$block" bs=1M count=16 oflag=direct status=none; done
  # shellcheck disable=SC2086
  mdadm --quiet --create "$array" --run --level="${LEVEL:-5}" --raid-devices="${#members[@]}" --assume-clean --bitmap=none --size=4M \
    --data-offset=2M ${CREATE:-} "${members[@]}"
  blocks=$(($(blockdev --getsize64 "$array") / 4096))
  numbers | dd of="$array" bs=64k iflag=fullblock oflag=direct status=none
  dmsetup create "$name" --table "0 $(blockdev --getsz "$spare") linear $spare 0"
  mdadm --quiet "$array" --add "/dev/mapper/$name"
  cut_power "$@"
  roles "$@"
  mdadm --assemble --run "$array" "$@"
  writable
  sleep 1
  grep -A 1 "^${array#/dev/}" /proc/mdstat
  idle
  state="$(<"$sysfs/dev-${spare##*/}/state")"
  wrong="$(wrong)"
  echo "spare is $state, degraded $(<"$sysfs/degraded")"
  echo "blocks of 4 KiB that do not hold what was written: $(wc -w <<<"$wrong") of $blocks"
  for block in $(head -n 1 <<<"$wrong"); do
    echo "  block $block begins with: $(dd if="$array" bs=4k skip="$block" count=1 iflag=direct status=none | od -An -v -tx1 -N 8)"
  done
  echo max >"$sysfs/sync_max"
  echo check >"$sysfs/sync_action"
  idle
  echo "mismatches that a check counts, in sectors: $(<"$sysfs/mismatch_cnt")"
  # A rebuilt spare is a member in sync too, but then nothing differs.
  [[ $state == in_sync && ($wrong || $(<"$sysfs/mismatch_cnt") != 0) ]] && verdict=0 || verdict=1
}

main "$@"
