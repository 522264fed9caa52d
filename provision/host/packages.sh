#!/usr/bin/env bash
# Installs what is missing from the given package sets (files in packages/). If nothing is missing, it changes nothing
# and needs no network.
# Usage: packages.sh SET...      Exit 3: packages are missing and cannot be installed from here.
set -euo pipefail

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
readonly here
# shellcheck source=provision/host/as-root.sh
source "$here/as-root.sh"
readonly policy="${RAIDLAB_POLICY:-/usr/sbin/policy-rc.d}"
readonly mark="# raidlab: no service starts while it installs packages"
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

give_up() {
  say "$1"
  say "missing: ${*:2}"
  say "next, as root: apt-get update && apt-get install --no-install-recommends ${*:2}"
  exit 3
}

# Packages with a service would start it, but raidlab needs only the programs, so a policy prevents this. All of this
# runs as root in one process, because sudo might ask for a password again before the end. A policy with the mark was
# left by a killed run, because a running one holds the lock. Another program's policy is not touched. Without names,
# only a policy that was left behind is removed.
install_quietly() {
  local name
  local apt=(env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=120 -o Dpkg::Use-Pty=0)
  exec 9<"${policy%/*}"
  flock 9 || say "no lock, because this file system has none: do not run two of these at once"
  if [[ ! -e $policy ]] || grep -qsxF "$mark" "$policy"; then
    trap 'rm -f "$policy"' EXIT
    # The file is renamed once it is on the disk, because a power cut would leave a file without the mark.
    printf '#!/bin/sh\n%s\nexit 101\n' "$mark" >"$policy.raidlab"
    chmod 755 "$policy.raidlab"
    sync "$policy.raidlab"
    mv -T "$policy.raidlab" "$policy"
  fi
  (($#)) || return 0
  "${apt[@]}" update 9<&- || say "apt-get update failed; trying with the existing package lists"
  "${apt[@]}" install --yes --no-install-recommends "$@" >&2 9<&-
  [[ -d /run/systemd/system ]] || return 0
  for name in "$@"; do
    # shellcheck disable=SC2086
    [[ -z ${services[$name]:-} ]] || systemctl disable --quiet ${services[$name]} || true
  done
}

# The code is passed as text, because root may not be able to read this folder (NFS).
as_root_install() {
  local code
  code="$(declare -p policy mark services && declare -f say install_quietly)"
  as_root bash -euo pipefail -c "$code; install_quietly \"\$@\"" packages.sh "$@"
}

main() {
  local missing
  command -v dpkg-query >/dev/null || give_up "this is not Debian or Ubuntu; the packages have other names here" "$(wanted "$@" | xargs)"
  mapfile -t missing < <(missing_of "$@")
  if ((!${#missing[@]})); then
    ! grep -qsxF "$mark" "$policy" || as_root_install ||
      say "an earlier run left $policy, which keeps services from starting; next, as root: rm $policy"
    return 0
  fi
  say "installing ${missing[*]}"
  as_root true 2>/dev/null || give_up "installing needs root, and sudo is missing or refuses" "${missing[@]}"
  as_root_install "${missing[@]}" || give_up "apt-get could not install them" "${missing[@]}"
}

main "$@"
