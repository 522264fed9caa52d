#!/usr/bin/env bash
# Installs Packer and Vagrant on Ubuntu 24.04 and later, which lacks both, because Ubuntu does not ship software with
# the licence that they have had since 2023. They come from their publisher's package source, which is added only with
# consent. Vagrant's driver for libvirt is built from RubyGems.
# Exit 3: nothing was installed, and the commands to type are printed.
set -euo pipefail

# shellcheck source=provision/host/as-root.sh
source "$(dirname "${BASH_SOURCE[0]}")/as-root.sh"
readonly source_url="https://apt.releases.hashicorp.com"
readonly fingerprint="798AEC654E5C15428C8E42EEAA16FCBCA621E701"
readonly keyring="${RAIDLAB_KEYRING:-/usr/share/keyrings/hashicorp-archive-keyring.gpg}"
readonly list="${RAIDLAB_SOURCE_LIST:-/etc/apt/sources.list.d/hashicorp.list}"

say() { printf 'vagrant: %s\n' "$*" >&2; }

release() { sed -nE 's/^VERSION_CODENAME=//p' "${RAIDLAB_OS_RELEASE:-/etc/os-release}"; }

explain() {
  say "Ubuntu has no package of Packer, of Vagrant's driver for libvirt, or of a current Vagrant"
  say "their publisher HashiCorp has a package source of its own, $source_url; its packages are not checked by Ubuntu"
  say "its key has the fingerprint $fingerprint"
}

print_commands() {
  cat >&2 <<END
next, if you agree to that source:
  curl -fsS $source_url/gpg | sudo gpg --dearmor -o $keyring
  gpg --show-keys --with-fingerprint $keyring     # compare with the fingerprint above
  echo "deb [signed-by=$keyring] $source_url $(release) main" | sudo tee $list
  sudo apt-get update && sudo apt-get install packer vagrant
then again: make vm
END
}

add_source() {
  folder="$(mktemp -d)"
  trap 'rm -rf "$folder"' EXIT
  curl --fail --silent --show-error --output "$folder/key" "$source_url/gpg"
  gpg --homedir "$folder" --quiet --dearmor --output "$folder/key.gpg" "$folder/key"
  gpg --homedir "$folder" --quiet --show-keys --with-colons "$folder/key.gpg" | grep -q "^fpr:::::::::$fingerprint:" || {
    say "the key at $source_url does not have the fingerprint $fingerprint; nothing was added"
    return 3
  }
  as_root install -m 644 "$folder/key.gpg" "$keyring"
  printf 'deb [signed-by=%s] %s %s main\n' "$keyring" "$source_url" "$(release)" >"$folder/list"
  as_root install -m 644 "$folder/list" "$list"
}

install_programs() {
  local agreed=""
  explain
  [[ ! -t 0 ]] || read -r -p "vagrant: add this source and install packer and vagrant from it? [y/N] " agreed || true
  if [[ ${agreed,,} != y && ${agreed,,} != yes ]]; then
    print_commands
    return 3
  fi
  add_source
  as_root apt-get -qq update
  as_root apt-get -qq install --yes packer vagrant
}

main() {
  if ! command -v packer >/dev/null || ! command -v vagrant >/dev/null; then
    install_programs
  fi
  vagrant plugin list | grep -q '^vagrant-libvirt ' && return
  say "building Vagrant's driver for libvirt from RubyGems, for this user: vagrant plugin install vagrant-libvirt"
  vagrant plugin install vagrant-libvirt >&2
}

main "$@"
