#!/bin/busybox sh
# The first program of a kernel with a root image. It mounts the image, copies /agent to /run/agent in it, and starts
# RAIDLAB_INIT from there.
# shellcheck shell=sh

for module in /modules/*; do /bin/busybox insmod "$module" || echo "$module was not loaded"; done
PATH=/bin
for name in cat cp mount umount; do busybox ln -s busybox /bin/$name; done
mount -t devtmpfs dev /dev
mount -t sysfs sys /sys
for disk in /sys/block/*; do
  [ "$(cat "$disk/serial" 2>/dev/null)" = ROOT ] && root=/dev/${disk##*/}
done
mount -t squashfs -o ro "$root" /root || exit 1
mount -t tmpfs -o mode=755 run /root/run
cp -a /agent /root/run/agent
umount /sys
mount -o move /dev /root/dev
exec busybox switch_root /root "$RAIDLAB_INIT"
