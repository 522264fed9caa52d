#!/usr/bin/env bash
# The journal device of a RAID 5 with a write-through journal fails: does md still write to the members?
# As root: journal-failure.sh MEMBER MEMBER MEMBER MEMBER JOURNAL   (32 MiB or more each; all data on them is lost)
# Exit status, for part 2: 0 a member was written to without the journal (reproduced), 1 none was (refuted), 2 this could not be tried.
set -euo pipefail
export LC_ALL=C PATH="$PATH:/usr/sbin:/sbin" DM_DISABLE_UDEV=1 MDADM_NO_UDEV=1
readonly array=/dev/md119 sysfs=/sys/block/md119/md name=finding offset=2048
members=() verdict=2

clean_up() {
  mdadm --quiet --stop "$array" || true
  dmsetup remove "${name}1" "${name}4" || true
  udevadm control --start-exec-queue || true
  exit "$verdict"
}

# layer N DEVICE TARGET: creates or changes device mapper's layer N on a device; linear passes on every request, error fails every request.
layer() {
  local table
  table="0 $(blockdev --getsz "$2") $3 $2 0"
  dmsetup info "$name$1" >/dev/null 2>&1 || dmsetup create "$name$1" --table "$table"
  dmsetup reload "$name$1" --table "$table"
  dmsetup resume "$name$1"
}

# put LETTER CHUNK: writes the first 4 KiB of a chunk through the array, and prints the result of the write.
put() {
  head -c 4096 /dev/zero | tr '\0' "$1" | dd of="$array" bs=4k seek=$(($2 * 8)) oflag=direct status=none 2>/dev/null &&
    echo "write $1 to chunk $2: acknowledged" || echo "write $1 to chunk $2: error"
}

byte() { dd if="$1" bs=512 skip="$2" count=8 iflag=direct status=none | od -An -v -tx1 -w4096 | cut -c 1-3; }

# Prints the first byte of the stripe on each member: chunks 0, 1, 2 and their parity.
stripe() { for member in "${members[@]}"; do byte "$member" "$offset"; done | tr -d '\n'; }

# Creates an array whose first stripe contains A, B, C, all in md's stripe cache.
begin() {
  echo "$1"
  for member in "${members[@]}"; do dd if=/dev/zero of="$member" bs=1M count=4 oflag=direct status=none; done
  layer 1 "${members[1]}" linear
  layer 4 "$journal" linear
  mdadm --quiet --create "$array" --run --level=5 --chunk=32 --raid-devices=4 --assume-clean --data-offset=1M --write-journal "/dev/mapper/${name}4" \
    "${members[0]}" "/dev/mapper/${name}1" "${members[@]:2}"
  echo 0 >"$sysfs/safe_mode_delay"
  put A 0
  put B 1
  put C 2
}

main() {
  (($# == 5)) || { sed -n '2,4s/^# //p' "$0" >&2 && exit 2; }
  [[ ! -e $sysfs ]] || { echo "$array is in use" >&2 && exit 2; }
  members=("${@:1:4}") journal="$5"
  trap 'clean_up 2>/dev/null' EXIT
  udevadm control --stop-exec-queue 2>/dev/null || true
  echo "$(uname -sr), $(mdadm --version 2>&1)"
  begin "1. All members work, the journal fails:"
  echo "stripe before:$(stripe) (chunks 0 to 2, parity)"
  layer 4 "$journal" error
  put X 1
  put Y 0
  sleep 1
  echo "stripe after: $(stripe)"
  grep -A 1 "^${array#/dev/}" /proc/mdstat
  echo "array_state: $(<"$sysfs/array_state")"
  mdadm --quiet --stop "$array"
  begin "2. Member 0 is missing; the journal and member 1 fail at the same time:"
  mdadm --quiet "$array" --fail "${members[0]}"
  put C 2
  local before
  before="$(stripe)"
  echo "stripe before:$before"
  layer 4 "$journal" error
  layer 1 "${members[1]}" error
  put X 1
  sleep 1
  [[ $before == "$(stripe)" ]] && verdict=1 || verdict=0
  echo "stripe after: $(stripe)"
  grep -A 1 "^${array#/dev/}" /proc/mdstat
  mdadm --quiet --stop "$array"
  layer 1 "${members[1]}" linear
  mdadm --assemble --force --run "$array" "/dev/mapper/${name}1" "${members[@]:2}"
  echo "chunk 0, written as 41 and never again, now reads:$(byte "$array" 0)"
}

main "$@"
