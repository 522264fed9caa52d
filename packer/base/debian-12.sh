#!/usr/bin/env bash
# Makes a bootable Debian 12 disk with cloud-init from the package sources of this computer, which must run Debian 12.
# Mounts are in a separate namespace, and loop devices detach automatically, so nothing remains if this is killed.
# Usage, as root: debian-12.sh OUTPUT.qcow2 GIB
set -euo pipefail

here="$(cd -P "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
guest="$(cd -P "$here/../../provision/guest" && pwd)"
readonly here guest
# shellcheck source=provision/host/apt-sources.sh
source "$here/../../provision/host/apt-sources.sh"
# For mmdebstrap's hooks.
export RAIDLAB_GUEST="$guest"

say() { printf 'base: %s\n' "$*" >&2; }

names() { sed -e 's/#.*//' -e '/^\s*$/d' "$here/debian-12.txt" "$guest/packages/common.txt"; }

fill() {
  local tar="$1" options=() line
  while read -r line; do options+=("--aptopt=$line"); done < <(apt_access)
  # Scripts that run in every image do two slow things here, without emulation. They install packages, and rebuild the
  # initramfs without md. In the machine, they find both done.
  # Man pages remain. Other documentation and translations would be most of a small system.
  # shellcheck disable=SC2016
  debian_sources bookworm | mmdebstrap --quiet --variant=minbase --include="$(names | paste -sd,)" \
    --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-include=/usr/share/doc/*/copyright' \
    --dpkgopt='path-exclude=/usr/share/locale/*' "${options[@]}" \
    --essential-hook='cp -r "$RAIDLAB_GUEST" "$1/opt/guest" && chroot "$1" /opt/guest/arrays.sh' \
    --customize-hook='chroot "$1" /opt/guest/arrays.sh && rm -rf "$1/opt/guest"' \
    --customize-hook='cp "$RAIDLAB_GUEST/../../packer/base/cloud-init.cfg" "$1/etc/cloud/cloud.cfg.d/90-bake.cfg"' \
    --customize-hook='printf "LABEL=root / ext4 errors=remount-ro,discard 0 1\n" >"$1/etc/fstab"' \
    --customize-hook='sed -i -E "s#//(127\.0\.0\.1|localhost):#//10.0.2.2:#" "$1"/etc/apt/apt.conf.d/99mmdebstrap || true' \
    --customize-hook='systemctl --root="$1" enable --quiet systemd-networkd systemd-resolved' \
    bookworm "$tar" -
}

make_bootable() {
  local mount="$1" disk="$2"
  mkdir -p "$mount/boot/syslinux"
  # These are the links that each new kernel updates.
  printf 'DEFAULT linux\nPROMPT 0\nTIMEOUT 1\nLABEL linux\n  LINUX /vmlinuz\n  INITRD /initrd.img\n  APPEND root=LABEL=root ro console=tty0 console=ttyS0,115200\n' \
    >"$mount/boot/syslinux/syslinux.cfg"
  extlinux --install "$mount/boot/syslinux" 2>/dev/null
  dd if=/usr/lib/EXTLINUX/mbr.bin of="$disk" bs=440 count=1 conv=notrunc status=none
}

build() {
  local out="$1" gib="$2" mount="$1.mount" disk="$1.raw"
  [[ -n "$(debian_sources bookworm)" ]] || {
    say "apt has no package source for Debian 12 on this computer; next: sudo apt-get update, or on another system bake debian-12"
    return 3
  }
  fill "$out.tar"
  truncate -s "${gib}G" "$disk"
  parted -s "$disk" mklabel msdos mkpart primary ext4 1MiB 100% set 1 boot on
  # Loop devices may show no partitions, so everything uses the partition's offset.
  mkfs.ext4 -q -L root -E offset=1048576,lazy_itable_init=0,lazy_journal_init=0 "$disk" "$((gib * 1024 * 1024 - 1024))k"
  mkdir "$mount"
  mount -o loop,offset=1048576 "$disk" "$mount"
  tar -xf "$out.tar" -C "$mount" --numeric-owner --xattrs --xattrs-include='*'
  make_bootable "$mount" "$disk"
  umount "$mount"
  qemu-img convert -O qcow2 "$disk" "$out"
  chown --reference="$(dirname "$out")" "$out"
  rm -rf "$mount" "$disk" "$out.tar"
}

main() {
  export PATH="$PATH:/usr/sbin:/sbin"
  if [[ ${RAIDLAB_OWN_MOUNTS:-} != 1 ]]; then
    RAIDLAB_OWN_MOUNTS=1 exec unshare --mount --propagation private setpriv --pdeathsig KILL "$0" "$@"
  fi
  build "$1" "${2:-8}"
}

main "$@"
