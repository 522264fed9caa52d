#!/usr/bin/env bash
# Removes what unfinished bakes left behind, first their machines, then their folders. The caller must hold the lock, so
# that no bake is running.
set -euo pipefail

# shellcheck source=packer/steps/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

# Prints the programs of a bake whose command line contains a file of this folder.
orphans_of() {
  local folder="$1" process
  for process in /proc/[0-9]*; do
    [[ "$(cat "$process/comm" 2>/dev/null)" =~ ^(qemu-system|packer|mmdebstrap) ]] || continue
    if tr '\0' '\n' <"$process/cmdline" 2>/dev/null | grep -qF "$folder/"; then printf '%s\n' "${process#/proc/}"; fi
  done
}

end_orphans() {
  local pids signal waited=0
  mapfile -t pids < <(orphans_of "$1")
  while ((${#pids[@]})); do
    # Packer gets time to end its machine, but a hung machine gets none. Root is needed only for other users' processes.
    if ((waited < 50)); then signal=TERM; else signal=KILL; fi
    kill -s "$signal" "${pids[@]}" 2>/dev/null || as_root kill -s "$signal" "${pids[@]}" 2>/dev/null || true
    ((waited < 100)) || fail "processes of an unfinished bake do not end: ${pids[*]}; next: end them by hand"
    sleep 0.2
    waited=$((waited + 1))
    mapfile -t pids < <(orphans_of "$1")
  done
}

main() {
  local folder
  for folder in "$output"/.bake-*; do
    [[ -e $folder ]] || continue
    end_orphans "$folder"
    rm -rf "$folder" 2>/dev/null || as_root rm -rf "$folder"
  done
  for folder in "$output"/.old-*; do
    [[ -e $folder ]] || continue
    # The bake was interrupted between its two renames, so the old box is still valid.
    if [[ -e $output/${folder##*/.old-} ]]; then rm -rf "$folder"; else mv -T "$folder" "$output/${folder##*/.old-}"; fi
  done
}

main "$@"
