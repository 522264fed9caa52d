# shellcheck shell=bash
# Sourced. A check for scripts that replace a folder that the user specified.

# Whether the path is free, or a folder that contains only files with names that the script itself uses.
# Usage: is_free_or_own FOLDER NAME...      NAME: a pattern of find(1)
is_free_or_own() {
  local folder="$1" name others own=(-false)
  shift
  [[ -e $folder ]] || return 0
  for name in "$@"; do own+=(-o -name "$name"); done
  [[ -d $folder ]] || return
  others="$(find "$folder" -mindepth 1 ! \( -type f \( "${own[@]}" \) \) -print -quit)" && [[ -z $others ]]
}
