#!/usr/bin/env bash
# Makes the box from the baked disk, and puts it in place together with checksum and manifest. Packer's post-processor
# does not pack it, because each version of Packer writes a different format and cannot add the files that the box's own
# Vagrantfile reads. Usage: box.sh IMAGE WORK ACCELERATOR STARTED
set -euo pipefail

# shellcheck source=packer/steps/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

manifest() {
  printf '{\n"image": "%s",\n"input_hash": "%s",\n"baked_at": "%s",\n"bake_seconds": %d,\n"accelerator": "%s",\n"packer": "%s",\n' \
    "$1" "$2" "$(date -u +%Y-%m-%dT%H:%M:%SZ)" "$3" "$4" "$(packer version | sed -n '1s/^Packer v//p')"
  cat "$5"
  printf '}\n'
}

main() {
  local image="$1" work="$2" accelerator="$3" started="$4" new="$2/finished" box gib
  box="raidlab-$image.box"
  mkdir "$new" "$work/box"
  # The disk is compressed, so that it remains small in the user's storage pool. The tar around it needs no compression.
  qemu-img convert -c -O qcow2 -W -m 4 "$work/machine/lab.qcow2" "$work/box/box.img"
  gib="$(qemu-img info --output=json "$work/box/box.img" | python3 -I -c 'import json, sys; print(json.load(sys.stdin)["virtual-size"] >> 30)')"
  printf '{"provider": "libvirt", "format": "qcow2", "virtual_size": %d}\n' "$gib" >"$work/box/metadata.json"
  cp "$packer_folder/box/Vagrantfile" "$repository"/provision/vagrant/lab{_vm.rb,-vm.yml} "$work/box/"
  tar -cf "$new/$box" --sort=name --owner=0 --group=0 --numeric-owner -C "$work/box" .
  (cd "$new" && sha256sum "$box" >"$box.sha256")
  manifest "$image" "$(<"$work/inputs")" $(($(date +%s) - started)) "$accelerator" "$work/facts" >"$new/manifest.json"
  python3 -I -m json.tool "$new/manifest.json" >/dev/null
  # Folders are swapped as a whole. After an interruption between the two renames, recover.sh recognises the old one by
  # its name.
  sync -f "$new"
  [[ ! -e $output/$image ]] || mv -T "$output/$image" "$output/.old-$image"
  mv -T "$new" "$output/$image"
  rm -rf "$output/.old-$image"
  say "$image is ready: $output/$image/$box, $(du -h "$output/$image/$box" | cut -f 1)"
}

main "$@"
