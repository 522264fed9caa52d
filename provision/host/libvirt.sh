#!/usr/bin/env bash
# Makes libvirt's daemon answer this user: starts it if systemd can, and reports what else is missing.
# Exit 3: something must be done by hand; the message says what.
set -euo pipefail

# shellcheck source=provision/host/as-root.sh
source "$(dirname "${BASH_SOURCE[0]}")/as-root.sh"
readonly uri="${LIBVIRT_DEFAULT_URI:-qemu:///system}"

say() { printf 'libvirt: %s\n' "$*" >&2; }

answer() { LC_ALL=C virsh --connect "$uri" uri 2>&1 </dev/null; }

# Packages are installed here without starting their services, so a new libvirt must be started here.
start() {
  if [[ -d /run/systemd/system ]]; then
    say "starting its daemon: systemctl enable --now libvirtd.socket"
    as_root systemctl enable --quiet --now virtlogd.socket libvirtd.socket && return
  else
    say "this computer has no systemd, so start its daemons yourself"
  fi
  say "next, as root: dbus-daemon --system --fork; virtlogd --daemon; libvirtd --daemon; then again: make vm"
  return 3
}

main() {
  local said
  said="$(answer)" && return
  if [[ $said == *"No such file"* || $said == *"Connection refused"* ]]; then
    start
    said="$(answer)" && return
  fi
  case "$said" in
  *denied* | *authentication* | *polkit*)
    say "$(id -un) is not in the group libvirt, whose members may manage virtual machines without root"
    say "next: sudo usermod -aG libvirt $(id -un), log in again, then again: make vm"
    ;;
  *) say "it does not answer at $uri: ${said##*error: }; next: fix that, then again: make vm" ;;
  esac
  return 3
}

main "$@"
