#!/usr/bin/env bash
# Makes the disk from which an image is baked, if it is created locally: WORK/base.qcow2 and WORK/base.sha256. The disk
# is reused by later bakes until its sources change, but for at most 30 days, so that it gets security updates.
# Usage: base.sh IMAGE WORK
set -euo pipefail

# shellcheck source=packer/steps/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

main() {
  local image="$1" work="$2" builder kept gib
  builder="$(image_variable "$image" base_builder)"
  [[ -n $builder ]] || return 0
  gib="$(sed -nE 's/^disk_size_gib\s*=\s*([0-9]+).*/\1/p' "$(variables_of "$image")")"
  kept="$output/.base/$builder-$({
    cat "$packer_folder"/base/* "$repository"/provision/guest/{arrays.sh,packages/common.txt,files/*md*}
    printf '%s' "$gib"
  } | sha256sum | cut -c 1-16)"
  if [[ -z "$(find "$kept.qcow2" -mtime -30 2>/dev/null)" || ! -s $kept.sha256 ]]; then
    say "making the base disk from this computer's package sources; about a minute"
    mkdir -p "$output/.base"
    rm -f "$output/.base/$builder-"*
    as_root env TMPDIR="$work" "$packer_folder/base/$builder.sh" "$work/base.new" "${gib:-8}"
    sha256sum "$work/base.new" | cut -d ' ' -f 1 >"$kept.sha256"
    # A power cut after the rename must not leave a disk that never matches its checksum.
    sync "$work/base.new" "$kept.sha256"
    mv "$work/base.new" "$kept.qcow2"
  fi
  ln "$kept.qcow2" "$work/base.qcow2"
  cp "$kept.sha256" "$work/base.sha256"
}

main "$@"
