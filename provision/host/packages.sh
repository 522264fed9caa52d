#!/usr/bin/env bash
# Installs what is missing from the package sets named (files in packages/); touches nothing and needs no network if all is there.
# Usage: packages.sh SET...      Exit 3: packages are missing and cannot be installed from here.
set -euo pipefail

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
readonly here
readonly policy=/usr/sbin/policy-rc.d
# Services of these packages, which would start with the computer.
declare -rA services=(["openssh-server"]="ssh.service ssh.socket" ["munge"]=munge.service ["slurmctld"]=slurmctld.service ["slurmd"]=slurmd.service)

say() { printf 'packages: %s\n' "$*" >&2; }

wanted() {
  local name
  for name in "$@"; do
    sed -e 's/#.*//' -e '/^\s*$/d' "$here/packages/$name.txt"
  done | sort -u
}

missing_of() {
  comm -23 <(wanted "$@") <(dpkg-query -W -f '${db:Status-Status} ${Package}\n' | sed -n 's/^installed //p' | sort -u)
}

as_root() {
  if ((EUID == 0)); then
    "$@"
  elif [[ -t 0 ]]; then
    sudo "$@"
  else
    sudo -n "$@"
  fi
}

give_up() {
  say "$1"
  say "missing: ${*:2}"
  say "next, as root: apt-get update && apt-get install --no-install-recommends ${*:2}"
  exit 3
}

# Packages with a service would start it; raidlab needs only the programs, so a policy prevents that.
install_quietly() {
  local name
  local apt=(env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=120 -o Dpkg::Use-Pty=0)
  as_root "${apt[@]}" update || say "apt-get update failed; trying with the existing package lists"
  if [[ ! -e $policy ]]; then
    trap 'as_root rm -f "$policy"' EXIT
    printf '#!/bin/sh\nexit 101\n' | as_root tee "$policy" >/dev/null
    as_root chmod 755 "$policy"
  fi
  as_root "${apt[@]}" install --yes --no-install-recommends "$@" >&2 || return
  [[ -d /run/systemd/system ]] || return 0
  for name in "$@"; do
    # shellcheck disable=SC2086
    [[ -z ${services[$name]:-} ]] || as_root systemctl disable --quiet ${services[$name]} || true
  done
}

main() {
  local missing
  command -v dpkg-query >/dev/null || give_up "this is not Debian or Ubuntu; the packages have other names here" "$(wanted "$@" | xargs)"
  mapfile -t missing < <(missing_of "$@")
  ((${#missing[@]})) || return 0
  say "installing ${missing[*]}"
  as_root true 2>/dev/null || give_up "installing needs root, and sudo is missing or refuses" "${missing[@]}"
  install_quietly "${missing[@]}" || give_up "apt-get could not install them" "${missing[@]}"
}

main "$@"
