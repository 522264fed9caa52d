#!/usr/bin/env bash
# Sets up what a virtual lab needs, and what the owner of a physical machine must decide: DHCP on all network cards, ssh
# only with keys, no other listening program, and no updates or swapping during a measurement. The bake runs this. It is
# safe to run again.
set -euo pipefail

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
readonly here
# Units that start work by themselves.
readonly restless=(apt-daily.timer apt-daily-upgrade.timer unattended-upgrades.service man-db.timer e2scrub_all.timer
  fstrim.timer motd-news.timer update-notifier-download.timer update-notifier-motd.timer ua-timer.timer esm-cache.service
  dpkg-db-backup.timer snapd.service snapd.socket snapd.seeded.service fwupd-refresh.timer sysstat-collect.timer)
# Units that a lab does not need and that delay every start, by seconds if the processor is emulated. They are for LVM
# snapshots, programs for other processors, a network set on the kernel's command line, and crash logs of UEFI firmware.
readonly useless=(e2scrub_reap.service systemd-binfmt.service proc-sys-fs-binfmt_misc.automount
  systemd-network-generator.service systemd-pstore.service)

put() { install -D -m 644 "$here/files/$1" "$2"; }

# Multipath and snaps take disks, memory and boot time. Only installed packages are removed.
remove_unwanted() {
  local unwanted
  mapfile -t unwanted < <(comm -12 <(sed -e 's/#.*//' -e '/^\s*$/d' "$here/packages/unwanted.txt" | sort -u) \
    <(dpkg-query -W -f '${db:Status-Status} ${Package}\n' | sed -n 's/^installed //p' | sort -u))
  ((${#unwanted[@]} == 0)) || DEBIAN_FRONTEND=noninteractive apt-get -qq purge --yes --autoremove "${unwanted[@]}" >/dev/null
}

network() {
  grep -qs '^127\.0\.1\.1\s' /etc/hosts || printf '127.0.1.1 raidlab\n' >>/etc/hosts
  put network.conf /etc/systemd/network/10-raidlab.network
  put resolved.conf /etc/systemd/resolved.conf.d/raidlab.conf
  # Waiting for cards that a student adds would delay every start.
  put wait-online.conf /etc/systemd/system/systemd-networkd-wait-online.service.d/raidlab.conf
  ln -sfn /run/systemd/resolve/resolv.conf /etc/resolv.conf
  systemctl enable --quiet systemd-networkd.service systemd-resolved.service
  systemctl try-restart systemd-resolved.service
}

login() {
  put sshd.conf /etc/ssh/sshd_config.d/10-raidlab.conf
  put ssh-host-keys.conf /etc/systemd/system/ssh.service.d/raidlab.conf
  install -D -m 755 "$here/files/ssh-host-keys" /usr/local/lib/raidlab/ssh-host-keys
  # This is the account that every Vagrant box has. Keys are accepted even if the password is locked.
  id vagrant >/dev/null 2>&1 || useradd --create-home --shell /bin/bash vagrant
  usermod --lock vagrant
  usermod --lock root
  printf 'vagrant ALL=(ALL) NOPASSWD: ALL\n' >/etc/sudoers.d/vagrant
  chmod 440 /etc/sudoers.d/vagrant
}

main() {
  remove_unwanted
  network
  login
  systemctl mask --quiet "${restless[@]}" "${useless[@]}" 2>/dev/null || true
  swapoff --all
  sed -i '/\sswap\s/d' /etc/fstab
  install -D -m 755 "$here/files/has-arrays" /usr/local/lib/raidlab/has-arrays
  put arrays.service /etc/systemd/system/raidlab-arrays.service
  systemctl enable --quiet raidlab-arrays.service
  put journald.conf /etc/systemd/journald.conf.d/raidlab.conf
  systemctl daemon-reload
}

main "$@"
