#!/usr/bin/env bash
# A RAID 5 has lost a member, and a sector of another member is unreadable: does a read of that sector ever end?
# As root: [LIST=bbl] unreadable-sector.sh MEMBER MEMBER MEMBER [SPARE]   (16 MiB or more each; all data on them is lost)
#   LIST   whether the members have bad-block lists (bbl), or not (no-bbl)
#   SPARE  if given, the rebuild onto this spare reads the sector; otherwise dd reads it
# Exit status: 0 md retries for more than ten seconds (reproduced), 1 the read ends (refuted), 2 this could not be tried.
set -euo pipefail
export LC_ALL=C PATH="$PATH:/usr/sbin:/sbin" DM_DISABLE_UDEV=1 MDADM_NO_UDEV=1
readonly array=/dev/md119 sysfs=/sys/block/md119/md name=finding offset=4096
verdict=2 reader=""

clean_up() {
  mdadm --quiet --stop "$array" 2>/dev/null || true
  dmsetup remove "${name}1" 2>/dev/null || true
  dmsetup remove "${name}0" 2>/dev/null || true
  udevadm control --start-exec-queue 2>/dev/null || true
  exit "$verdict"
}

# layer COMMAND DEVICE TARGET: device mapper's layer on a member, in which TARGET serves the first 4 KiB of data.
layer() {
  local size after=$((offset + 8))
  size="$(blockdev --getsz "$2")"
  printf '%s\n' "0 $offset linear $2 0" "$offset 8 $3" "$after $((size - after)) linear $2 $after" | dmsetup "$1" "${name}1"
}

node() { dmsetup info --noheadings -co blkdevname "${name}1"; }

# Prints how many reads of the member have completed (iostats.rst, field 1).
reads() { awk '{ print $1 }' "/sys/block/$(node)/stat"; }

goes_on() { if [[ $reader ]]; then kill -0 "$reader" 2>/dev/null; else [[ $(<"$sysfs/sync_action") != idle ]]; fi; }

prepare() {
  for device; do dd if=/dev/zero of="$device" bs=1M count=4 oflag=direct status=none; done
  # Each read of the sector takes 10 ms and then fails, as on a drive that does not retry for long.
  dmsetup create "${name}0" --table "0 8 error"
  layer create "$2" "linear $2 $offset"
  mdadm --quiet --create "$array" --run --level=5 --raid-devices=3 --assume-clean --bitmap=none --size=8M --data-offset=2M "$1" "/dev/mapper/${name}1" "$3"
  mdadm --quiet --stop "$array"
  mdadm --quiet --assemble "$array" --update="${LIST:-bbl}" "$1" "/dev/mapper/${name}1" "$3"
  mdadm --quiet "$array" --fail "$3"
  layer reload "$2" "delay /dev/mapper/${name}0 0 10"
  dmsetup resume "${name}1"
}

main() {
  (($# == 3 || $# == 4)) || { sed -n '2,6s/^# //p' "$0" >&2 && exit 2; }
  [[ ! -e $sysfs ]] || { echo "$array is in use" >&2 && exit 2; }
  trap clean_up EXIT
  udevadm control --stop-exec-queue 2>/dev/null || true
  echo "$(uname -sr), $(mdadm --version 2>&1)"
  prepare "$@"
  local before
  before="$(reads)"
  if [[ ${4:-} ]]; then
    mdadm --quiet "$array" --add "$4"
    sleep 1
  else
    # Read from the second chunk of the first row, which is on the second member.
    dd if="$array" of=/dev/null bs=4k count=1 skip=$(($(<"$sysfs/chunk_size") / 4096)) iflag=direct status=none &
    reader=$!
  fi
  for _ in {1..20}; do
    goes_on || break
    sleep 0.5
  done
  goes_on && verdict=0 || verdict=1
  echo "$( ((verdict)) && echo "it ended" || echo "it goes on"), after $(($(reads) - before)) reads of the second member"
  grep -A 2 "^${array#/dev/}" /proc/mdstat
  echo "bad blocks of the second member: $(tr '\n' ' ' <"$sysfs/dev-$(node)/bad_blocks")"
  # Let the waiting process finish.
  layer reload "$2" "linear $2 $offset"
  dmsetup resume "${name}1"
  [[ ! $reader ]] || wait "$reader" || echo "dd's status: $?"
}

main "$@"
