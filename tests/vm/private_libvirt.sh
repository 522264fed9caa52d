#!/usr/bin/env bash
# A private libvirt without systemd, for as long as standard input stays open. It and the outside cannot see each other.
# Usage, as root: unshare --net --mount --pid --fork --kill-child --mount-proc private_libvirt.sh FOLDER
# Prints "ready". Its end takes every process of the namespaces with it: libvirt's, QEMU's and what was started beside them.
set -euo pipefail

readonly folder="${1:?a folder for the state of libvirt}"

# The folders that the daemons write to are compiled in, so others are mounted over them.
cover() {
  local place="$1" instead="$folder$1"
  mkdir -p "$place" "$instead"
  [[ $place != /etc/* ]] || cp -a "$place/." "$instead/"
  chmod 755 "$instead"
  mount --bind "$instead" "$place"
}

main() {
  local place
  if (($$ != 1)); then
    printf 'private_libvirt: start it in namespaces of its own; its head says how\n' >&2
    return 2
  fi
  for place in /etc/libvirt /var/lib/libvirt /var/cache/libvirt /var/log/libvirt; do
    cover "$place"
  done
  for place in /run/libvirt /run/dbus; do
    mkdir -p "$place"
    mount -t tmpfs -o mode=755 private "$place"
  done
  # A private network needs no name server outside; slirp4netns offers one at this address.
  printf 'nameserver 10.77.0.3\n' >"$folder/resolv.conf"
  mount --bind "$folder/resolv.conf" /etc/resolv.conf
  # libvirt's own default network is for users.
  rm -rf /etc/libvirt/qemu/networks/*
  ip link set lo up
  dbus-daemon --system --fork --nopidfile
  virtlogd --daemon --pid-file /run/libvirt/private-virtlogd.pid
  libvirtd --daemon --pid-file /run/libvirt/private-libvirtd.pid
  printf 'ready\n'
  # Until whoever started this closes the pipe, or dies.
  cat >/dev/null
}

main "$@"
