#!/usr/bin/env bash
# This is the last step of a bake. It removes everything that belongs to one machine or to the bake, checks that
# Vagrant's key is the only access, and discards free blocks. The machine is switched off afterwards.
set -euo pipefail

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
readonly here

fail() {
  printf 'seal: %s\n' "$*" >&2
  exit 1
}

# Only sshd may listen, and the DHCP client, which hears its server on UDP 68 (546 for IPv6).
check_listeners() {
  local others
  others="$(ss -Hlntup | awk '$5 ~ /:22$/ && $1 == "tcp" {next} $5 ~ /:(68|546)$/ && $1 == "udp" {next} {print}')"
  [[ -z $others ]] || fail "something other than sshd listens:"$'\n'"$others"
}

check_logins() {
  local user password effective
  while IFS=: read -r user password _; do
    [[ $password == '!'* || $password == '*'* ]] || fail "$user has a password, or an empty one"
  done </etc/shadow
  effective="$(sshd -T)"
  grep -qx 'passwordauthentication no' <<<"$effective" || fail "sshd accepts passwords"
  grep -qx 'kbdinteractiveauthentication no' <<<"$effective" || fail "sshd accepts typed passwords"
  grep -qx 'permitrootlogin no' <<<"$effective" || fail "sshd accepts root"
}

forget_the_bake() {
  rm -rf /etc/netplan/50-cloud-init.yaml /etc/network/interfaces.d/50-cloud-init /etc/systemd/network/10-cloud-init-*
  rm -rf /etc/apt/apt.conf.d/99mmdebstrap /etc/sudoers.d/90-cloud-init-users /etc/ssh/sshd_config.d/50-cloud-init.conf
  rm -rf /var/lib/cloud /run/cloud-init /etc/cloud/cloud.cfg.d/90-bake.cfg
  # cloud-init has done its work, and its search for a data source would delay every start.
  mkdir -p /etc/cloud && touch /etc/cloud/cloud-init.disabled
  apt-get clean
  rm -rf /var/lib/apt/lists/* /var/cache/apt/*.bin /var/cache/debconf/*-old /var/cache/man ~root/.cache ~vagrant/.cache
  rm -rf ~vagrant/.local ~vagrant/.bash_history ~root/.bash_history ~root/.ssh /tmp/* /var/tmp/*
  find /var/log -type f -delete
}

become_nobody_yet() {
  rm -f /etc/ssh/ssh_host_* /var/lib/systemd/random-seed /var/lib/systemd/credential.secret /var/lib/dbus/machine-id
  rm -f /var/lib/dhcp/* /etc/hostid
  : >/etc/machine-id
  printf 'raidlab\n' >/etc/hostname
  # Vagrant has the private half of this key, and replaces it when the machine starts for the first time.
  install -d -m 700 -o vagrant -g vagrant ~vagrant/.ssh
  install -m 600 -o vagrant -g vagrant "$here/files/vagrant.pub" ~vagrant/.ssh/authorized_keys
}

main() {
  # This is read before /tmp, which contains this script, is emptied.
  check_listeners
  check_logins
  become_nobody_yet
  forget_the_bake
  fstrim --all || true
  sync
}

main "$@"
