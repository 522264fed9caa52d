#!/usr/bin/env bash
# Builds a root image for qemu:?root=ARCHITECTURE: a Debian with the programs that the lab uses, a kernel and an
# initramfs.
# Usage: build.sh amd64|arm64 [FOLDER]      By default, FOLDER is where raidlab looks for images. Exit 3: something is
# missing.
set -euo pipefail

readonly most_mib=200
# shellcheck source=provision/root-image/system.sh
source "$(dirname "${BASH_SOURCE[0]}")/system.sh"
# shellcheck source=provision/host/own-folder.sh
source "$repository/provision/host/own-folder.sh"

say() { printf 'root image: %s\n' "$*" >&2; }

# What is read before the system is mounted goes into separate files. raidlab itself stays on the computer that starts
# the machine.
build() {
  local architecture="$1" codename="$2" work="$3"
  mkdir "$work/parts" "$work/image"
  # xz makes the image a quarter smaller than zstd, but an emulated processor takes seconds longer to unpack it.
  # shellcheck disable=SC2016
  lab_system "$codename" "$architecture" \
    --extract-hook="copy-out /boot /usr/lib/modules /usr/lib/os-release /usr/bin/busybox $work/parts" \
    --extract-hook='rm "$1"/boot/vmlinuz-*' |
    sqfstar -quiet -no-progress -comp zstd "$work/image/root.squashfs" >&2
  mv "$work"/parts/boot/vmlinuz-* "$work/image/vmlinuz"
  "$repository/.venv/bin/python" -I "$image_scripts/parts.py" "$work/parts" "$architecture" "$work/image"
}

main() {
  local architecture="${1:-}" codename target work size
  check_architecture "$architecture" build.sh
  target="$(realpath --canonicalize-missing "${2:-${XDG_CACHE_HOME:-$HOME/.cache}/raidlab/kernels/root-$architecture}")"
  is_free_or_own "$target" root.squashfs vmlinuz initramfs.gz image.json ||
    fail "$target contains other files; next: give a new folder" 2
  "$repository/provision/host/packages.sh" root-image
  "$repository/provision/host/venv.sh" runtime
  codename="$(debian_release)"
  mkdir -p "$(dirname "$target")"
  work="$(mktemp -d "$target.XXXXXX")"
  # shellcheck disable=SC2064
  trap "rm -rf '$work'" EXIT
  say "unpacking Debian's packages ($codename, $architecture); this takes a few minutes"
  build "$architecture" "$codename" "$work"
  size="$(du -sm "$work/image" | cut -f 1)"
  ((size <= most_mib)) || fail "the image takes $size MiB, more than $most_mib; next: leave packages out of packages.txt"
  rm -rf "$target"
  mv "$work/image" "$target"
  say "$size MiB in $target; next: raidlab --on 'qemu:?root=$architecture' doctor"
}

main "$@"
