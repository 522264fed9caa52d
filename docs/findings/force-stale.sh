#!/usr/bin/env bash
# A RAID 5 has lost three members, one of them long before the others: does `mdadm --assemble --force` use the oldest one, although the array can start without it?
# As root: [ORDER="2 3 0 1"] force-stale.sh MEMBER MEMBER MEMBER MEMBER   (8 MiB or more each; all data on them is lost)
#   ORDER   the order of the members on mdadm's command line (2 3 0 1); member 3 fails first, then member 2, then member 1
# Exit status: 0 the oldest member is used (reproduced), 1 it is not, and all data is intact (refuted), 2 this could not be tried.
set -euo pipefail
export LC_ALL=C PATH="$PATH:/usr/sbin:/sbin" DM_DISABLE_UDEV=1 MDADM_NO_UDEV=1
readonly array=/dev/md119 sysfs=/sys/block/md119/md
blocks=0 verdict=2

clean_up() {
  mdadm --quiet --stop "$array" 2>/dev/null || true
  udevadm control --start-exec-queue 2>/dev/null || true
  exit "$verdict"
}

# Each block of 4 KiB contains the sum of its own number and $1, as 4095 digits and a line feed.
numbers() { seq -f '%04095.0f' "$1" $(($1 + blocks - 1)); }

# Prints the blocks that do not contain the sum of their number and $1. Every correct block ends with a line feed, whatever precedes the block.
wrong() {
  tr '\0' - <"$array" | awk -v blocks="$blocks" -v first="$1" '
    BEGIN { zeros = sprintf("%04095d", 0) }
    {
      end += length($0) + 1
      n = end / 4096 - 1
      if (n == int(n) && substr($0, length($0) - 4094) == substr(zeros, length((n + first)) + 1) (n + first)) right[n] = 1
    }
    END { for (n = 0; n < blocks; n++) if (!(n in right)) print n }'
}

# Sets a member faulty, and waits until the other members' superblocks record this; until then the member is blocked. mdadm 4.3
# and later refuse to fail a member that the array needs, so this writes to sysfs. md returns EBUSY, but fails the member.
fail() {
  local state="$sysfs/dev-${1##*/}/state"
  echo faulty 2>/dev/null >"$state" || true
  until [[ $(<"$state") == *faulty* && $(<"$state") != *blocked* ]]; do sleep 0.1; done
}

write_all() { numbers "$1" | dd of="$array" bs=64k iflag=fullblock oflag=direct status=none; }

main() {
  (($# == 4)) || { sed -n '2,5s/^# //p' "$0" >&2 && exit 2; }
  [[ ! -e $sysfs ]] || { echo "$array is in use" >&2 && exit 2; }
  trap clean_up EXIT
  udevadm control --stop-exec-queue 2>/dev/null || true
  echo "$(uname -sr), $(mdadm --version 2>&1)"
  local device lost events named=()
  for device; do dd if=/dev/zero of="$device" bs=1M count=8 oflag=direct status=none; done
  mdadm --quiet --create "$array" --run --level=5 --raid-devices=4 --chunk=64 --assume-clean --bitmap=none --size=4M --data-offset=2M "$@"
  blocks=$(($(blockdev --getsize64 "$array") / 4096))
  write_all 0
  fail "$4"
  write_all 1000000
  until [[ $(<"$sysfs/array_state") == clean ]]; do sleep 0.1; done
  fail "$3"
  fail "$2"
  mdadm --quiet --stop "$array"
  mapfile -t events <<<"$(mdadm --examine "$@" | sed -n 's/^ *Events : //p')"
  echo "events of the members: ${events[*]}"
  # mdadm considers a member that is one event behind to be up to date.
  ((events[0] >= events[2] + 2)) || { echo "member 2 is less than two events behind" >&2 && exit 2; }
  for device in ${ORDER:-2 3 0 1}; do named+=("${*:device+1:1}"); done
  mdadm --assemble --force --run "$array" "${named[@]}"
  grep -A 1 "^${array#/dev/}" /proc/mdstat
  lost="$(wrong 1000000 | wc -l)"
  echo "blocks of 4 KiB that do not hold what was written: $lost of $blocks"
  ((lost)) && verdict=0 || verdict=1
}

main "$@"
