#!/usr/bin/env bash
# Builds a root image for qemu:?root=ARCHITECTURE: a Debian with what the lab uses, its kernel, and an initramfs for it.
# Packages come from this computer's own sources, are only unpacked and never run, so any architecture can be built on any.
# Works as an ordinary user with a range of ids in /etc/subuid (subuid(5); useradd and adduser give one).
# Usage: build.sh amd64|arm64 [FOLDER]      FOLDER: where raidlab looks for it, if left out. Exit 3: something is missing.
set -euo pipefail

here="$(cd -P "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
repository="$(cd -P "$here/../.." && pwd)"
readonly here repository
readonly most_mib=200
# shellcheck source=provision/host/apt-sources.sh
source "$repository/provision/host/apt-sources.sh"

say() { printf 'root image: %s\n' "$*" >&2; }

fail() {
  say "$1"
  exit "${2:-1}"
}

umask 022
# For both the packages' files and the file system.
export SOURCE_DATE_EPOCH="${SOURCE_DATE_EPOCH:-0}"

# raidlab itself stays on the computer that starts the machine, and with it what only its set-up needs.
names() {
  sed -e 's/#.*//' -e '/^\s*$/d' "$here/packages.txt" "$repository/provision/host/packages/lab.txt" | grep -vxF python3-venv
  printf 'linux-image-%s\n' "$1"
}

# What is read before the system is mounted becomes files of their own.
# shellcheck disable=SC2016
build() {
  local architecture="$1" codename="$2" work="$3"
  mkdir "$work/parts" "$work/image"
  # zstd: xz makes it a quarter smaller, but then an emulated processor takes seconds longer to unpack it.
  unpacked_debian "$codename" "$architecture" "$(names "$architecture" | paste -sd,)" \
    --extract-hook="'$here/settle.sh' \"\$1\"" \
    --extract-hook="copy-out /boot /usr/lib/modules /usr/lib/os-release /usr/bin/busybox $work/parts" \
    --extract-hook='rm "$1"/boot/vmlinuz-*' |
    sqfstar -quiet -no-progress -comp zstd "$work/image/root.squashfs" >&2
  mv "$work"/parts/boot/vmlinuz-* "$work/image/vmlinuz"
  "$repository/.venv/bin/python" -I "$here/parts.py" "$work/parts" "$architecture" "$work/image"
}

main() {
  local architecture="${1:-}" codename target work size
  [[ $architecture == amd64 || $architecture == arm64 ]] || fail "which architecture? next: build.sh amd64, or build.sh arm64" 2
  target="$(realpath --canonicalize-missing "${2:-${XDG_CACHE_HOME:-$HOME/.cache}/raidlab/kernels/root-$architecture}")"
  "$repository/provision/host/packages.sh" root-image
  "$repository/provision/host/venv.sh" runtime
  codename="$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)"
  [[ -n "$(debian_sources "$codename")" ]] ||
    fail "apt knows no package source of Debian here; next: build the image on Debian, and copy its folder to $target" 3
  mkdir -p "$(dirname "$target")"
  work="$(mktemp -d "$target.XXXXXX")"
  # shellcheck disable=SC2064
  trap "rm -rf '$work'" EXIT
  say "unpacking Debian's packages ($codename, $architecture); some minutes"
  build "$architecture" "$codename" "$work"
  size="$(du -sm "$work/image" | cut -f 1)"
  ((size <= most_mib)) || fail "the image takes $size MiB, more than $most_mib; next: leave packages out of packages.txt"
  rm -rf "$target"
  mv "$work/image" "$target"
  say "$size MiB in $target; next: raidlab --on 'qemu:?root=$architecture' doctor"
}

main "$@"
