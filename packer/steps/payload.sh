#!/usr/bin/env bash
# Makes the input of a bake's machine: a key and cloud-init's seed, the provisioning and raidlab's wheels, and blank lab
# disks.
# Usage: payload.sh IMAGE WORK
set -euo pipefail

# shellcheck source=packer/steps/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

seed() {
  local work="$1"
  ssh-keygen -q -t ed25519 -N '' -C 'raidlab bake' -f "$work/key"
  mkdir "$work/seed"
  sed "s|@KEY@|$(<"$work/key.pub")|" "$packer_folder/seed/user-data.template" >"$work/seed/user-data"
  printf 'instance-id: raidlab-bake\nlocal-hostname: raidlab\n' >"$work/seed/meta-data"
}

main() {
  local image="$1" work="$2" number
  seed "$work"
  "$repository/provision/host/wheelhouse.sh" "$work/wheelhouse" "$(architecture_of "$image")"
  tar -cf "$work/payload.tar" -C "$repository" provision/guest -C "$work" wheelhouse
  # There are sixteen, the maximum of lab_disk_count, because they take no space.
  for number in {01..16}; do
    truncate -s 500M "$work/lab$number.img"
  done
}

main "$@"
