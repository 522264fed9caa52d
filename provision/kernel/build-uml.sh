#!/usr/bin/env bash
# Builds the embedded kernel, once, without root. Interrupted at any time, it goes on from there when it is called again.
# Usage: build-uml.sh [standard|virtual-time|planted] [--source FILE]
#   planted         with virtual time, and with defects of md that can be switched on, for which the fault lab looks
#   --source FILE   not the newest linux-source package of this computer, but this tarball (linux-source-6.12.tar.xz)
# Result: ${XDG_CACHE_HOME:-~/.cache}/raidlab/kernels/FLAVOUR/{linux,release,config,modules,inputs}; with --source in
# FLAVOUR-VERSION. modules is what the kernel looks for in /lib/modules/RELEASE. With virtual time there are quick_clock.so and
# fio as well, by which fio starts sooner.
set -euo pipefail
# Others must never be able to write here: the files are executed later.
umask go-w

repository="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
readonly repository
readonly cache="${XDG_CACHE_HOME:-$HOME/.cache}/raidlab/kernels" sources="${RAIDLAB_KERNEL_SOURCES:-/usr/src}"
# What no embedded kernel is built of is not unpacked: two thirds of the files. Kconfig and Makefiles are read in any case.
readonly unpack_not=(
  '*/Documentation/*/*' '*/tools/perf/*' '*/tools/testing/*'
  '*/arch/[!ux]*/*.[chS]' '*/arch/[!ux]*/boot/*' '*/arch/[!ux]*/configs/*' '*/arch/xtensa/*.[chS]'
  '*/sound/*/*.[chS]' '*/drivers/net/*/*.[chS]' '*/drivers/scsi/*/*.[chS]'
  '*/drivers/'{accel,clk,comedi,crypto,gpu,hwmon,iio,infiniband,media,mtd,pinctrl,platform,staging,usb,video}'/*.[chS]'
)
flavour="" source="" name="" build="" tree="" job=""
compiled=0 total=0 shown=0

say() { printf 'kernel: %s\n' "$*" >&2; }
fail() {
  say "$1"
  exit "${2:-1}"
}
# Nothing of what could not be prepared stays.
give_up() {
  rm -rf "$build"
  fail "$@"
}

interrupted() {
  trap '' INT TERM HUP
  [[ -z $job ]] || kill -TERM -- "-$job" 2>/dev/null || true
  [[ -z $job ]] || wait "$job" 2>/dev/null || true
  [[ ! -t 2 ]] || printf '\r\e[K' >&2
  say "interrupted; called again, it goes on from there"
  exit "$1"
}

# Runs one step in a session of its own, which ends with this script, also if that is killed (prctl(2), PR_SET_PDEATHSIG).
# Each line of its output goes to the function named first.
run() {
  local each="$1" line lines status=0
  exec {lines}< <(exec setsid nice -n 10 setpriv --pdeathsig TERM "${@:2}" </dev/null 2>>"$build/messages")
  job=$!
  while IFS= read -r -u "$lines" line; do "$each" "$line"; done
  exec {lines}<&-
  wait "$job" || status=$?
  job=""
  return "$status"
}

kmake() { run "$1" make -C "$tree" ARCH=um "${@:2}"; }

has_virtual_time() { [[ $flavour != standard ]]; }

configs() {
  local names=(lab "$flavour")
  [[ $flavour != planted ]] || names=(lab virtual-time planted)
  printf 'provision/kernel/%s.config\n' "${names[@]}"
}

patches() {
  printf '%s\n' provision/kernel/patches/*.patch
  [[ $flavour != planted ]] || printf '%s\n' provision/kernel/planted/*.patch
}

inputs() {
  configs
  ! has_virtual_time || {
    printf 'provision/kernel/%s\n' quick_clock.c fio_libraries.sh
    patches
    printf '%s\n' provision/kernel/driver/* lab/disks/drive/{mechanics,parameters}.h
  }
}

hash_of() { sha256sum "$@" | sha256sum | cut -d ' ' -f 1; }

identity() { printf '%s %s\n' "$(basename "$source")" "$(stat -L -c '%s %Y' "$source")"; }

# Later security updates of the distribution's source do not invalidate a kernel; a source that was chosen is meant.
is_built() {
  local built=()
  [[ ! -r $cache/$name/inputs ]] || mapfile -t built <"$cache/$name/inputs"
  # shellcheck disable=SC2046
  [[ -x $cache/$name/linux && ${built[0]:-} == "$(hash_of $(inputs))" ]] && [[ ! $source || ${built[1]:-} == "$(identity)" ]]
}

newest_source() {
  local found
  found="$(find "$sources" -maxdepth 2 -name 'linux-source-*.tar.*' | sort -V | tail -n 1)"
  [[ $found ]] || fail "no kernel source in $sources; next: sudo apt-get install linux-source" 3
  printf '%s\n' "$found"
}

require_tools() {
  local tool missing=()
  [[ "$(uname -m)" == x86_64 ]] || fail "the embedded kernel exists for x86-64 only, this is $(uname -m)" 3
  for tool in gcc make flex bison bc flock depmod patch xz; do
    command -v "$tool" >/dev/null || missing+=("$tool")
  done
  ((${#missing[@]} == 0)) || fail "missing: ${missing[*]}; next: make uml-kernel (installs them)" 3
}

patch_tree() {
  local file kernel
  kernel="$(make -s -C "$tree" ARCH=um kernelversion)"
  for file in $(patches); do
    patch --directory="$tree" --strip=1 --fuzz=0 --forward --batch --no-backup-if-mismatch --reject-file=- <"$file" >>"$build/messages" 2>&1 && continue
    tail -n 5 "$build/messages" >&2
    give_up "$(basename "$file") does not apply to Linux $kernel; next: use another source (--source), or mend the patch"
  done
}

add_driver() {
  local drivers="$tree/arch/um/drivers"
  grep -qs '/Makefile.rules$' "$drivers/Makefile" ||
    give_up "$(basename "$source") has no arch/um/drivers/Makefile as the lab's drives need it; next: use another source (--source)"
  mkdir "$drivers/lab"
  cp provision/kernel/driver/* lab/disks/drive/{mechanics,parameters}.h "$drivers/lab/"
  printf 'obj-y += lab/\n' >>"$drivers/Makefile"
}

configure() {
  local fragments setting missing=()
  mapfile -t fragments < <(configs)
  if has_virtual_time; then
    cat "${fragments[@]}" >"$build/wanted"
    kmake : "KCONFIG_ALLCONFIG=$build/wanted" allnoconfig || give_up_with_messages "cannot be configured"
  else
    {
      kmake : defconfig && (cd "$tree" && ARCH=um scripts/kconfig/merge_config.sh -m .config "${fragments[@]/#/$repository/}") >/dev/null &&
        kmake : olddefconfig
    } || give_up_with_messages "cannot be configured"
  fi
  while read -r setting; do
    grep -qxF "$setting" "$tree/.config" || missing+=("$setting")
  done < <(grep -hE '^CONFIG_\w+=[ym]$' "${fragments[@]}")
  ((${#missing[@]} == 0)) || say "this source has no ${missing[*]}"
  grep -q '^CONFIG_MD_RAID456=y' "$tree/.config" || give_up "this source cannot build the md driver for ARCH=um"
}

tell_messages() { grep -E 'rror: |\*\*\*|tar: ' "$build/messages" | head -n 10 >&2 || true; }

give_up_with_messages() {
  tell_messages
  give_up "$(basename "$source") $1"
}

# What is there is whole: until then it has another name.
prepare() {
  [[ ! -d $build/tree ]] || {
    tree="$build/tree"
    say "going on with what was interrupted"
    return
  }
  rm -rf "$build"
  tree="$build/unpacked"
  mkdir -p "$tree"
  say "unpacking $source"
  XZ_OPT=-T0 run : tar -xf "$source" -C "$tree" --strip-components=1 "${unpack_not[@]/#/--exclude=}" ||
    give_up_with_messages "cannot be unpacked"
  if has_virtual_time; then
    patch_tree
    add_driver
  fi
  configure
  mv "$tree" "$build/tree"
  tree="$build/tree"
}

count() { total="$1"; }

# What others may have written is neither built on nor taken for a finished kernel.
require_own() {
  local folder private=()
  # The group of a user's own name has nobody else in it.
  [[ "$(id -gn)" != "$(id -un)" ]] || private=(! -gid "$(id -g)")
  for folder in "$cache" "$cache/.build"; do
    [[ -O $folder && -z "$(find "$folder" -maxdepth 0 \( -perm /002 -o -perm /020 "${private[@]}" \))" ]] ||
      fail "$folder is another user's, or others may write in it; next: remove it, or if all in it is yours: chmod -R go-w $folder"
  done
}

# A line of make's: what is done, in one line of a terminal, otherwise every tenth part.
show() {
  [[ $1 == '  CC '* ]] || return 0
  compiled=$((compiled + 1))
  local tenth=$((total ? compiled * 10 / total : compiled / 100)) part="$compiled files"
  ((total == 0)) || part="$((compiled < total ? compiled * 100 / total : 100)) %, $compiled of $total files"
  if [[ -t 2 ]]; then
    printf '\r\e[Kkernel: %s: %.48s' "$part" "${1##* }" >&2
  elif ((tenth > shown)); then
    shown="$tenth"
    say "$part"
  fi
}

compile() {
  local jobs
  jobs="$(nproc)"
  say "compiling on $jobs CPUs; $([[ $flavour == standard ]] && echo seven || echo two) minutes on two"
  if kmake : -s -j "$jobs" prepare; then
    # What is left to do, which make can tell by now. Its recipes are too long for a shell to read.
    # shellcheck disable=SC2016
    run count sh -c 'make -C "$0" ARCH=um -n -k linux modules 2>/dev/null | grep -c "echo .  CC "' "$tree" || true
  fi
  : >"$build/messages"
  kmake show -j "$jobs" linux modules || {
    [[ ! -t 2 ]] || printf '\n' >&2
    tell_messages
    fail "$(basename "$source") cannot be compiled: $build/messages; next: mend that and call it again, or remove $build to begin anew"
  }
  [[ ! -t 2 ]] || printf '\r\e[K' >&2
}

collect() {
  local result="$build/result"
  rm -rf "$result" "$build/installed"
  mkdir "$result"
  kmake : -s "INSTALL_MOD_PATH=$build/installed" INSTALL_MOD_STRIP=1 modules_install || fail "no modules: $build/messages"
  mv "$build"/installed/lib/modules/* "$result/modules"
  rm -f "$result"/modules/{build,source}
  install -m 755 -s "$tree/linux" "$result/linux"
  install -m 644 "$tree/.config" "$result/config"
  cp "$tree/include/config/kernel.release" "$result/release"
  if has_virtual_time; then
    gcc -O2 -shared -fPIC -o "$result/quick_clock.so" provision/kernel/quick_clock.c
    provision/kernel/fio_libraries.sh "$result/fio"
  fi
  # shellcheck disable=SC2046
  printf '%s\n' "$(hash_of $(inputs))" "$(identity)" >"$result/inputs"
}

choose() {
  flavour=standard
  while (($#)); do
    case "$1" in
    standard | virtual-time | planted) flavour="$1" ;;
    --source)
      source="$(realpath -es -- "${2:?--source needs a file}")" || exit 2
      shift
      ;;
    *) fail "usage: build-uml.sh [standard|virtual-time|planted] [--source FILE]" 2 ;;
    esac
    shift
  done
  name="$flavour"
  [[ $source ]] || return 0
  [[ $(basename "$source") =~ ^linux[-_](source-)?([0-9]+\.[0-9][-.0-9a-z]*)\.tar(\.[0-9a-z]+)?$ ]] ||
    fail "$source does not tell the kernel's version; next: name it like linux-source-6.12.tar.xz" 2
  name+="-${BASH_REMATCH[2]}"
}

main() {
  local other
  choose "$@"
  cd "$repository"
  is_built && return
  export PATH="$PATH:/usr/sbin:/sbin" LC_ALL=C
  # A make that called this has flags of its own, and no other tree is meant.
  unset MAKEFLAGS MFLAGS MAKELEVEL KBUILD_OUTPUT CROSS_COMPILE
  require_tools
  mkdir -p "$cache/.build"
  require_own
  trap 'interrupted 130' INT
  trap 'interrupted 143' TERM
  trap 'interrupted 129' HUP
  exec 9>"$cache/lock"
  build="$cache/.build"
  flock --nonblock --conflict-exit-code 75 9 || {
    (($? == 75)) || fail "the file system of $cache has no locks; next: choose a local disk with XDG_CACHE_HOME=FOLDER"
    say "another build is under way; waiting for its end"
    run : flock 9
  }
  is_built && return
  [[ $source ]] || source="$(newest_source)"
  # shellcheck disable=SC2046
  build="$cache/.build/$flavour-$({ hash_of $(inputs) provision/kernel/build-uml.sh && identity; } | sha256sum | cut -c 1-16)"
  for other in "$cache"/.build.* "$cache"/.build/*; do [[ $other == "$build" ]] || rm -rf "$other"; done
  prepare
  # The same source makes the same kernel, whoever builds it and when: what it calls itself feeds its random numbers.
  KBUILD_BUILD_TIMESTAMP="$(date --utc --reference="$tree/Makefile")"
  export KBUILD_BUILD_TIMESTAMP KBUILD_BUILD_USER=raidlab KBUILD_BUILD_HOST=raidlab KBUILD_BUILD_VERSION=1
  compile
  collect
  rm -rf "${cache:?}/$name"
  mv "$build/result" "$cache/$name"
  rm -rf "$build"
  say "$name $(cat "$cache/$name/release") ready in $cache/$name after $SECONDS s"
  # Nothing more is read of this file, which may have been changed meanwhile (git pull).
  exit
}

main "$@"
