#!/usr/bin/env bash
# libvirt of its own, without systemd, for as long as standard input stays open. Nobody outside sees it.
# Run as root in new namespaces: unshare --net --mount --pid --fork --kill-child --mount-proc private_libvirt.sh FOLDER
# Prints "ready"; its end takes every process of the namespace with it: libvirt's, QEMU's and what was started beside them.
set -euo pipefail

readonly folder="$1"

# Folders that libvirt's daemons write in, at the places that are compiled in.
cover() {
  local place="$1" copy="$folder$1"
  mkdir -p "$place" "$copy"
  [[ $place != /etc/* ]] || cp -a "$place/." "$copy/"
  chmod 755 "$copy"
  mount --bind "$copy" "$place"
}

main() {
  local place
  if [[ $$ != 1 ]]; then
    printf 'private_libvirt: start it in a process namespace of its own (see its head)\n' >&2
    return 2
  fi
  for place in /etc/libvirt /var/lib/libvirt /var/cache/libvirt /var/log/libvirt; do
    cover "$place"
  done
  mount -t tmpfs -o mode=755 run /run/libvirt 2>/dev/null || { mkdir -p /run/libvirt && mount -t tmpfs -o mode=755 run /run/libvirt; }
  mkdir -p /run/dbus
  mount -t tmpfs -o mode=755 dbus /run/dbus
  # The package's network and its start at boot are for users; a test makes its own.
  rm -rf /etc/libvirt/qemu/networks/*
  ip link set lo up
  dbus-daemon --system --fork --nopidfile
  virtlogd --daemon
  libvirtd --daemon
  printf 'ready\n'
  # Until whoever started this closes the pipe, or dies.
  cat >/dev/null
}

main "$@"
