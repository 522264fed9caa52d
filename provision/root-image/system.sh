# shellcheck shell=bash
# Sourced. What the images in provision/root-image and provision/oci-image have in common: a Debian with the lab's
# programs and a kernel for QEMU. Packages come from this computer's own sources. They are only unpacked and never run,
# so every architecture can be built on every other, by an ordinary user with a range of ids in /etc/subuid (subuid(5);
# useradd and adduser give one).

image_scripts="$(cd -P "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
repository="$(cd -P "$image_scripts/../.." && pwd)"
readonly image_scripts repository
# shellcheck source=provision/host/apt-sources.sh
source "$repository/provision/host/apt-sources.sh"

umask 022
# Both the packages' files and the file system use this.
export SOURCE_DATE_EPOCH="${SOURCE_DATE_EPOCH:-0}"
# Files with lists of packages, to which a script may add more.
lists=("$image_scripts/packages.txt" "$repository/provision/host/packages/lab.txt")

fail() {
  say "$1"
  exit "${2:-1}"
}

# Usage: check_architecture NAME COMMAND      COMMAND starts the caller, and is shown in the hint.
check_architecture() {
  [[ $1 == amd64 || $1 == arm64 ]] || fail "which architecture? next: $2 amd64, or $2 arm64" 2
}

# Prints the release, which is this computer's. Exit 3: apt has no package source for Debian here.
debian_release() {
  local codename
  codename="$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)"
  [[ -n "$(debian_sources "$codename")" ]] ||
    fail "apt has no package source for Debian here; next: build the image on Debian, and copy it to this computer" 3
  printf '%s\n' "$codename"
}

# The module venv is omitted, because only raidlab's set-up needs it.
names() {
  sed -e 's/#.*//' -e '/^\s*$/d' "${lists[@]}" | grep -vxF python3-venv
  printf 'linux-image-%s\n' "$1"
}

# Prints the system as tar. Further options are mmdebstrap's. The script of the first hook is copied into the system,
# because it may be readable here only by this user.
# Usage: lab_system CODENAME ARCHITECTURE [OPTION...]
# shellcheck disable=SC2016
lab_system() {
  unpacked_debian "$1" "$2" "$(names "$2" | paste -sd,)" \
    --extract-hook="upload '$image_scripts/settle.sh' /settle.sh" \
    --extract-hook='bash "$1/settle.sh" "$1" && rm "$1/settle.sh"' "${@:3}"
}
