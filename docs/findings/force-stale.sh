#!/usr/bin/env bash
# A RAID 5 has lost two members, one long before the other: does `mdadm --assemble --force` take the newer one alone, as it needs to?
# As root: [ORDER="2 3 0 1"] force-stale.sh MEMBER MEMBER MEMBER MEMBER   (8 MiB or more each; all that is on them is lost)
#   ORDER   in which the members are named to mdadm (2 3 0 1); member 3 fails first, member 2 last
# Exit status: 0 the older one is taken too (reproduced), 1 it is not, and all data is intact (refuted), 2 it could not be tried.
set -euo pipefail
export LC_ALL=C PATH="$PATH:/usr/sbin:/sbin" DM_DISABLE_UDEV=1 MDADM_NO_UDEV=1
readonly array=/dev/md119 sysfs=/sys/block/md119/md
blocks=0 verdict=2

clean_up() {
  mdadm --quiet --stop "$array" 2>/dev/null || true
  udevadm control --start-exec-queue 2>/dev/null || true
  exit "$verdict"
}

# Each block of 4 KiB holds its own number, in 4095 digits (of another kind the second time) and a line feed.
numbers() { seq -f '%04095.0f' 0 $((blocks - 1)) | tr 0-9 "$1"; }

write_all() { numbers "$1" | dd of="$array" bs=64k iflag=fullblock oflag=direct status=none; }

main() {
  (($# == 4)) || { sed -n '2,5s/^# //p' "$0" >&2 && exit 2; }
  [[ ! -e $sysfs ]] || { echo "$array is in use" >&2 && exit 2; }
  trap clean_up EXIT
  udevadm control --stop-exec-queue 2>/dev/null || true
  echo "$(uname -sr), $(mdadm --version 2>&1)"
  local device wrong named=()
  for device; do dd if=/dev/zero of="$device" bs=1M count=8 oflag=direct status=none; done
  mdadm --quiet --create "$array" --run --level=5 --raid-devices=4 --chunk=64 --assume-clean --bitmap=none --size=4M --data-offset=2M "$@"
  blocks=$(($(blockdev --getsize64 "$array") / 4096))
  write_all 0-9
  mdadm --quiet "$array" --fail "$4"
  write_all a-j
  sleep 1
  # md says that it is busy, and has done it.
  mdadm --quiet "$array" --fail "$3" 2>/dev/null || true
  sleep 1
  # md may still hold them for requests in flight; the array is stopped in any case.
  for _ in {1..20}; do
    ! mdadm --quiet "$array" --remove "$3" "$4" 2>/dev/null || break
    sleep 0.2
  done
  mdadm --quiet --stop "$array"
  for device; do echo "  ${device##*/}: $(mdadm --examine "$device" | grep -o 'Events : .*')"; done
  for device in ${ORDER:-2 3 0 1}; do named+=("${*:device+1:1}"); done
  mdadm --assemble --force --run "$array" "${named[@]}"
  grep -A 1 "^${array#/dev/}" /proc/mdstat
  wrong="$({ numbers a-j | cmp -l - "$array" 2>/dev/null || true; } | awk '{ print int(($1 - 1) / 4096) }' | uniq | wc -l)"
  echo "blocks of 4 KiB that do not hold what was written: $wrong of $blocks"
  ((wrong)) && verdict=0 || verdict=1
}

main "$@"
