#!/usr/bin/env bash
# Removes the remains of unfinished bakes: their machines, then their folders. Call it with the lock held, so that no bake is running.
set -euo pipefail

# shellcheck source=packer/steps/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

# Programs of a bake that name a file of this folder on their command line.
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
    # Packer gets time to end its machine; a hung machine does not. Root is needed only for processes of other users.
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
    # Interrupted between its two renames: the old box is still the valid one.
    if [[ -e $output/${folder##*/.old-} ]]; then rm -rf "$folder"; else mv -T "$folder" "$output/${folder##*/.old-}"; fi
  done
}

main "$@"
