#!/usr/bin/env bash
# Prints missing, stale or current. A box is stale if any of its inputs differs from what its manifest says.
# Usage: status.sh IMAGE      status.sh --inputs IMAGE: prints the hash of its current inputs
set -euo pipefail

# shellcheck source=packer/steps/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

inputs() {
  local image="$1"
  cd "$repository"
  # Variables of other images and generated files do not count.
  {
    find packer provision/guest lab tui -type f \
      -not -path 'packer/output*' -not -path 'packer/images/*' -not -name '*.pyc' -not -name '.*' -print0
    printf '%s\0' "packer/images/$image.pkrvars.hcl" provision/vagrant/lab{_vm.rb,-vm.yml} requirements/runtime.txt pyproject.toml
  } | LC_ALL=C sort -z | xargs -0 sha256sum | sha256sum | cut -d ' ' -f 1
}

status() {
  local folder="$output/$1" baked_from
  if [[ ! -f $folder/manifest.json || ! -f $folder/raidlab-$1.box ]]; then
    echo missing
    return
  fi
  baked_from="$(sed -nE 's/^ *"input_hash": "([0-9a-f]+)",?$/\1/p' "$folder/manifest.json")"
  if [[ $baked_from == "$(inputs "$1")" ]]; then echo current; else echo stale; fi
}

main() {
  if [[ $1 == --inputs ]]; then inputs "$2"; else status "$1"; fi
}

main "$@"
