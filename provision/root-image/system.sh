# shellcheck shell=bash
# Sourced: what the images have in common (provision/root-image, provision/oci-image): a Debian with the lab's programs and a
# kernel for QEMU. Packages come from this computer's own sources, are only unpacked and never run, so any architecture can be
# built on any, by an ordinary user with a range of ids in /etc/subuid (subuid(5); useradd and adduser give one).

image_scripts="$(cd -P "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
repository="$(cd -P "$image_scripts/../.." && pwd)"
readonly image_scripts repository
# shellcheck source=provision/host/apt-sources.sh
source "$repository/provision/host/apt-sources.sh"

umask 022
# For both the packages' files and the file system.
export SOURCE_DATE_EPOCH="${SOURCE_DATE_EPOCH:-0}"
# Files with names of packages, to which a script may add.
lists=("$image_scripts/packages.txt" "$repository/provision/host/packages/lab.txt")

fail() {
  say "$1"
  exit "${2:-1}"
}

# Usage: check_architecture NAME COMMAND      COMMAND: what the caller is started with, for the hint.
check_architecture() {
  [[ $1 == amd64 || $1 == arm64 ]] || fail "which architecture? next: $2 amd64, or $2 arm64" 2
}

# Prints the release: this computer's. Exit 3: apt knows no packages of Debian here.
debian_release() {
  local codename
  codename="$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)"
  [[ -n "$(debian_sources "$codename")" ]] ||
    fail "apt knows no package source of Debian here; next: build the image on Debian, and copy it to this computer" 3
  printf '%s\n' "$codename"
}

# Only raidlab's set-up needs the module venv.
names() {
  sed -e 's/#.*//' -e '/^\s*$/d' "${lists[@]}" | grep -vxF python3-venv
  printf 'linux-image-%s\n' "$1"
}

# Prints the system as tar. Further options are mmdebstrap's. The script of the first hook is copied into the system, because
# nobody but this user may be able to read it here.
# Usage: lab_system CODENAME ARCHITECTURE [OPTION...]
# shellcheck disable=SC2016
lab_system() {
  unpacked_debian "$1" "$2" "$(names "$2" | paste -sd,)" \
    --extract-hook="upload '$image_scripts/settle.sh' /settle.sh" \
    --extract-hook='bash "$1/settle.sh" "$1" && rm "$1/settle.sh"' "${@:3}"
}
