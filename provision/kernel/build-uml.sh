#!/usr/bin/env bash
# Builds the embedded kernel from the distribution's own kernel source, once, without root.
# Usage: build-uml.sh [standard|virtual-time]
# Result: ${XDG_CACHE_HOME:-~/.cache}/raidlab/kernels/FLAVOUR/{linux,release,config,modules},
# where modules is what the kernel looks for in /lib/modules/RELEASE.
set -euo pipefail

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
readonly here
readonly cache="${XDG_CACHE_HOME:-$HOME/.cache}/raidlab/kernels"
work=""

say() { printf 'kernel: %s\n' "$*" >&2; }
fail() {
  say "$1"
  exit "${2:-1}"
}

fragments_of() { printf '%s\n' "$here/lab.config" "$here/$1.config"; }

fragments_hash() { fragments_of "$1" | xargs -d '\n' cat | sha256sum | cut -d ' ' -f 1; }

# Later security updates of the source do not invalidate a kernel: only a change of its configuration does.
is_built() { [[ -x $cache/$1/linux && "$(cat "$cache/$1/inputs" 2>/dev/null)" == "$(fragments_hash "$1")" ]]; }

newest_source() {
  local found
  found="$(find /usr/src -maxdepth 2 -name 'linux-source-*.tar.*' | sort -V | tail -n 1)"
  [[ $found ]] || fail "no kernel source in /usr/src; next: sudo apt-get install linux-source" 3
  printf '%s\n' "$found"
}

require_tools() {
  local tool missing=()
  [[ "$(uname -m)" == x86_64 ]] || fail "the embedded kernel exists for x86-64 only, this is $(uname -m)" 3
  for tool in gcc make flex bison bc flock depmod xz; do
    PATH="$PATH:/usr/sbin:/sbin" command -v "$tool" >/dev/null || missing+=("$tool")
  done
  ((${#missing[@]} == 0)) || fail "missing: ${missing[*]}; next: make uml-kernel (installs them)" 3
}

configure() {
  local flavour="$1" fragments setting
  mapfile -t fragments < <(fragments_of "$flavour")
  make -s ARCH=um defconfig >/dev/null
  ARCH=um scripts/kconfig/merge_config.sh -m .config "${fragments[@]}" >/dev/null
  make -s ARCH=um olddefconfig
  while read -r setting; do
    grep -qxF "$setting" .config || say "this source has no $setting"
  done < <(grep -hE '^CONFIG_\w+=[ym]$' "${fragments[@]}")
  grep -q '^CONFIG_MD_RAID456=y' .config || fail "this source cannot build the md driver for ARCH=um"
}

build() {
  local flavour="$1" source inputs
  source="$(newest_source)"
  inputs="$(fragments_hash "$flavour")"
  say "unpacking $source"
  tar -xf "$source" -C "$work" --strip-components=1
  cd "$work"
  configure "$flavour"
  say "compiling on $(nproc) CPUs; seven minutes on two"
  nice -n 10 make -s ARCH=um -j "$(nproc)" linux modules
  mkdir "$work/result"
  PATH="$PATH:/usr/sbin:/sbin" make -s ARCH=um INSTALL_MOD_PATH="$work/installed" INSTALL_MOD_STRIP=1 modules_install >/dev/null
  mv "$work"/installed/lib/modules/* "$work/result/modules"
  rm -f "$work"/result/modules/{build,source}
  install -m 755 -s linux "$work/result/linux"
  install -m 644 .config "$work/result/config"
  make -s ARCH=um kernelrelease >"$work/result/release"
  printf '%s\n' "$inputs" >"$work/result/inputs"
}

main() {
  local flavour="${1:-standard}"
  [[ $flavour == standard || $flavour == virtual-time ]] || fail "no such flavour: $flavour" 2
  is_built "$flavour" && return
  require_tools
  mkdir -p "$cache"
  exec 9>"$cache/lock"
  flock 9
  is_built "$flavour" && return
  rm -rf "$cache"/.build.*
  work="$(mktemp -d "$cache/.build.XXXXXX")"
  trap 'rm -rf "$work"' EXIT
  export KBUILD_BUILD_USER=raidlab KBUILD_BUILD_HOST=raidlab
  build "$flavour"
  rm -rf "${cache:?}/$flavour"
  mv "$work/result" "$cache/$flavour"
  say "$flavour $(cat "$cache/$flavour/release") ready in $cache/$flavour after $SECONDS s"
}

main "$@"
