#!/usr/bin/env bash
# Checks the templates with the variables of every image, without network. If Packer is missing, it says so and passes,
# except in continuous integration on a system that has a package of Packer.
set -euo pipefail

# shellcheck source=packer/steps/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/steps/common.sh"

is_required() {
  [[ ${RAIDLAB_REQUIRE:-} == 1 || ${CI:-} == 1 || ${CI:-} == true ]] && grep -qxF 'VERSION_CODENAME=bookworm' /etc/os-release
}

main() {
  local image failed=0
  export CHECKPOINT_DISABLE=1
  if ! command -v packer >/dev/null; then
    ! is_required || fail "packer is missing; next: provision/host/setup.sh test" 3
    say "SKIPPED: packer validate of $(images): packer is not installed; next: provision/host/packages.sh image (Debian 12)"
    return
  fi
  for image in $(images); do
    packer validate -var-file="$(variables_of "$image")" "$packer_folder" >&2 || {
      say "packer/images/$image.pkrvars.hcl is not valid"
      failed=1
    }
  done
  return "$failed"
}

main "$@"
