#!/usr/bin/env bash
# Tests raidlab on another release: creates a small system with that release, in which an ordinary user with a clone sets
# raidlab up and runs COMMAND (default: selection.sh).
# Packages come from this computer's own sources. For a release that is not in them, set MIRROR=URL KEYRING=FILE.
# Mounts and processes have their own namespaces, and the disk is an unlinked file: nothing is left, however the script ends.
# Usage, as root: run.sh CODENAME [COMMAND...]      Exit status 3: there is no source for the release.
set -euo pipefail

repository="$(cd -P "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
readonly repository root=/mnt user=student
# shellcheck source=provision/host/apt-sources.sh
source "$repository/provision/host/apt-sources.sh"

say() { printf 'distribution: %s\n' "$*" >&2; }

sources() {
  if [[ -n ${MIRROR:-} ]]; then
    printf "deb $MIRROR %s main universe\n" "$1" "$1-updates"
  else
    debian_sources "$1"
  fi
}

# The disk is sparse, so it uses only as much space as is written. It vanishes with the last process that has it mounted.
make_disk() {
  local disk
  disk="$(mktemp)"
  truncate -s 40G "$disk"
  mkfs.ext4 -q -O ^has_journal -E lazy_itable_init=1 "$disk"
  mount -o loop,noatime "$disk" "$root"
  rm "$disk"
}

# The smallest possible installation, plus what is needed to fetch a clone and to become root.
fill() {
  local codename="$1" options=() line
  while read -r line; do options+=("--aptopt=$line"); done < <(apt_access)
  [[ -z ${KEYRING:-} ]] || options+=("--keyring=$KEYRING")
  sources "$codename" | mmdebstrap --quiet --mode=root --variant=minbase --include=apt,sudo,git,make,ca-certificates \
    --dpkgopt='force-unsafe-io' --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*' \
    "${options[@]}" "$codename" "$root" -
}

# Copy the settings with which this computer reaches the index of Python packages.
connect() {
  local file own=/usr/local/share/ca-certificates
  cat /etc/resolv.conf >"$root/etc/resolv.conf"
  for file in /etc/hosts /etc/pip.conf; do [[ ! -f $file ]] || cp "$file" "$root$file"; done
  [[ ! -d $own ]] || cp -r "$own/." "$root$own"
  chroot "$root" update-ca-certificates >/dev/null 2>&1
}

# The set-up installs packages with sudo, and nobody is there to type a password.
populate() {
  chroot "$root" useradd --create-home --shell /bin/bash "$user"
  printf '%s ALL=(ALL) NOPASSWD: ALL\n' "$user" >"$root/etc/sudoers.d/$user"
  git -c safe.directory='*' clone --quiet --no-hardlinks "$repository" "$root/home/$user/raidlab"
  chroot "$root" chown -R "$user:" "/home/$user/raidlab"
}

# pivot_root, since the kernel creates no user namespace for a process in a chroot (user_namespaces(7)).
enter() {
  mount -t proc proc "$root/proc"
  mount -t sysfs -o ro sysfs "$root/sys"
  mount -t devpts -o newinstance,ptmxmode=0666,mode=0620 devpts "$root/dev/pts"
  mount -t tmpfs tmpfs "$root/dev/shm"
  cd "$root"
  pivot_root . .
  umount --lazy .
  cd /
}

# The command runs in this session, so that an interrupt reaches it.
as_user() {
  local kept
  kept="$(compgen -e | grep -E '^(CI|TERM|RAIDLAB_.*|.*_proxy|.*_PROXY)$' | paste -sd,)"
  runuser --login --whitelist-environment="$kept" --session-command='cd ~/raidlab && exec "$@"' -- "$user" bash "$@"
}

main() {
  local codename="$1"
  shift
  if [[ ${RAIDLAB_OWN_NAMESPACES:-} != 1 ]]; then
    "$repository/provision/host/packages.sh" distribution
    RAIDLAB_OWN_NAMESPACES=1 exec setpriv --pdeathsig KILL \
      unshare --mount --propagation private --pid --fork --kill-child "$0" "$codename" "$@"
  fi
  unset RAIDLAB_OWN_NAMESPACES
  # The first process of a PID namespace gets no signal for which it has no handler.
  trap 'exit 130' INT TERM HUP
  [[ -n "$(sources "$codename")" ]] || {
    say "this computer has no package source for $codename; next: MIRROR=URL KEYRING=FILE $0 $codename"
    return 3
  }
  make_disk
  fill "$codename"
  connect
  populate
  enter
  as_user make setup-test
  rm "/etc/sudoers.d/$user"
  (($#)) || set -- tests/distributions/selection.sh
  as_user "$@"
}

main "$@"
