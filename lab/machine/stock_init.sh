#!/bin/busybox sh
# The first program of a stock kernel on this computer's files. It mounts the files over 9p, then starts RAIDLAB_INIT.
# shellcheck shell=sh

for module in /modules/*; do /bin/busybox insmod "$module" || echo "$module was not loaded"; done
# A background job needs /dev/null.
/bin/busybox mount -t devtmpfs dev /dev
for module in /levels/*; do
  # An assembled array waits for its first write (md(4), KERNEL PARAMETERS).
  case "$module" in *md-mod.ko) option=start_ro=1 ;; *) option= ;; esac
  /bin/busybox insmod "$module" $option
done &
/bin/busybox mount -t 9p -o ro,trans=virtio,version=9p2000.L,msize=262144,cache=loose computer /root || exit 1
cd /root && /bin/busybox mount --move . / && exec /bin/busybox chroot . "$RAIDLAB_INIT"
