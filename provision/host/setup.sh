#!/usr/bin/env bash
# Prepares this computer: installs packages, makes .venv, and provides a kernel (a package, or one that is fetched or
# built).
# Usage: setup.sh lab|cluster|test|kernel|vm|test-vm      A second run does nothing. Exit 3: something cannot be installed.
set -euo pipefail

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
readonly here
readonly os_release="${RAIDLAB_OS_RELEASE:-/etc/os-release}" cpuinfo="${RAIDLAB_CPUINFO:-/proc/cpuinfo}"

# Others must never be able to write here, because the files are executed later.
umask go-w

say() { printf 'setup: %s\n' "$*" >&2; }

is_at_least() { [[ "$(printf '%s\n' "$1" "$2" | sort -V | head -n 1)" == "$1" ]]; }

# Prints debian or ubuntu. A release without a number (Debian testing) is newer than any with one.
distribution() {
  local ID="" VERSION_ID="" PRETTY_NAME="an unknown system"
  # shellcheck source=/dev/null
  [[ -r $os_release ]] && source "$os_release"
  case "$ID" in
  debian) is_at_least 12 "${VERSION_ID:-999}" && echo debian && return ;;
  ubuntu) is_at_least 24.04 "${VERSION_ID:-999}" && echo ubuntu && return ;;
  esac
  say "this is $PRETTY_NAME; raidlab sets itself up on Debian 12, Ubuntu 24.04 and later"
  say "next: use such a computer, or install the packages of provision/host/packages/*.txt by hand and run provision/host/venv.sh"
  return 3
}

# This is needed on a processor with AMX before the embedded kernel's first start (see wide_registers.c).
prepare_registers() {
  local library="${XDG_CACHE_HOME:-$HOME/.cache}/raidlab/kernels/wide_registers.so" kernel="$here/../kernel"
  grep -qsw amx_tile "$cpuinfo" || return 0
  [[ $library -nt $kernel/wide_registers.c ]] || "$kernel/build-registers.sh" "$library"
}

# Only Debian packages User Mode Linux, for x86-64.
has_uml_package() { [[ $1 == debian && "$(uname -m)" == x86_64 ]]; }

prepare_lab() {
  local distro="$1" sets=(lab "${@:2}")
  if has_uml_package "$distro"; then
    "$here/packages.sh" "${sets[@]}" lab-debian
  else
    # A distribution's kernel in QEMU is ready immediately. On x86-64, make uml-kernel builds the embedded kernel later.
    "$here/packages.sh" "${sets[@]}" qemu "qemu-$(uname -m)"
  fi
  prepare_registers
}

# The tests need an embedded kernel. Once it is built, no compiler is needed, so later runs need only the lab's
# packages.
prepare_standard_kernel() {
  ! has_uml_package "$1" && [[ "$(uname -m)" == x86_64 ]] || return 0
  [[ -x ${XDG_CACHE_HOME:-$HOME/.cache}/raidlab/kernels/standard/linux ]] || "$here/packages.sh" kernel
  "$here/../kernel/build-uml.sh" standard
}

# Without an embedded kernel, the lab needs a kernel that this user can read. Ubuntu's own is not readable.
prepare_stock_kernel() {
  local raidlab="$here/../../.venv/bin/raidlab"
  ! has_uml_package "$1" || return 0
  [[ "$("$raidlab" --json kernels list)" == "[]" ]] || return 0
  "$raidlab" kernels get "$(uname -r | grep -oE '^[0-9]+\.[0-9]+')" || "$raidlab" kernels get 6
}

prepare_vm() {
  local distro="$1" sets=(vm "vm-$1" "${@:2}")
  if [[ $distro == debian ]]; then
    "$here/packages.sh" "${sets[@]}" image
  else
    "$here/packages.sh" "${sets[@]}"
    "$here/vagrant-ubuntu.sh"
  fi
}

main() {
  local distro
  distro="$(distribution)"
  case "${1:-}" in
  lab | cluster)
    prepare_lab "$distro"
    local packages="$1"
    [[ $1 != lab ]] || packages=runtime
    "$here/venv.sh" "$packages"
    prepare_stock_kernel "$distro"
    ;;
  test)
    local sets=(test cluster qemu "qemu-$(uname -m)")
    # Only this release has a package of Packer. On others, its checks are skipped.
    ! grep -qsxF VERSION_CODENAME=bookworm "$os_release" || sets+=(test-debian-12)
    prepare_lab "$distro" "${sets[@]}"
    prepare_standard_kernel "$distro"
    "$here/venv.sh" dev
    ;;
  kernel) "$here/packages.sh" kernel ;;
  vm)
    prepare_vm "$distro"
    "$here/venv.sh" runtime
    "$here/libvirt.sh"
    ;;
  test-vm)
    prepare_vm "$distro" test vm-test
    "$here/venv.sh" dev
    ;;
  *)
    say "usage: setup.sh lab|cluster|test|kernel|vm|test-vm"
    return 2
    ;;
  esac
}

main "$@"
