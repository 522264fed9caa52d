#!/usr/bin/env bash
# Lists everything that a bake needs and this computer lacks. Usage: require.sh IMAGE. Exit 3: something is missing.
set -euo pipefail

# shellcheck source=packer/steps/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

main() {
  local image="$1" program missing=() programs=(packer qemu-system-x86_64 qemu-img ssh-keygen python3 setpriv)
  if [[ "$(architecture_of "$image")" == arm64 ]]; then
    programs[1]=qemu-system-aarch64
    [[ -f /usr/share/qemu-efi-aarch64/QEMU_EFI.fd ]] || missing+=("qemu-efi-aarch64 (a package)")
  fi
  [[ -z "$(image_variable "$image" base_builder)" ]] || programs+=(mmdebstrap extlinux mkfs.ext4 parted)
  PATH="$PATH:/usr/sbin:/sbin"
  for program in "${programs[@]}"; do
    command -v "$program" >/dev/null || missing+=("$program")
  done
  # Either program creates the disc with cloud-init's seed.
  command -v xorriso >/dev/null || command -v mkisofs >/dev/null || missing+=(xorriso)
  ((${#missing[@]} == 0)) || {
    say "baking needs programs that are missing here: ${missing[*]}"
    fail "next: provision/host/packages.sh image (Debian 12; for arm64: image image-arm64), or see docs/image.md for other systems" 3
  }
}

main "$@"
