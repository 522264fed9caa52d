# This runs before the lines of every drill. mdadm --wait returns immediately if a rebuild is about to begin, but this
# function waits for the rebuild, for half a minute at most: settle /dev/md0
settle() {
  local md="/sys/block/${1#/dev/}/md" count=0
  while ((count++ < 150)) && _is_busy "$md"; do sleep 0.2; done
}

# md.rst in the kernel's documentation describes these states and files. A spare is about to be used if a member is
# missing or being replaced. A degraded or read-only array does not begin a resync.
_is_busy() {
  [[ -e $1/sync_action ]] || return 1
  [[ $(<"$1/sync_action") == idle && $(<"$1/reshape_position") == none ]] || return 0
  [[ $(<"$1/array_state") != read* ]] || return 1
  grep -qsE '^spare.*,replacement|replacement.*,spare' "$1"/dev-*/state && return 0
  if [[ $(<"$1/degraded") != 0 ]]; then grep -qs '^spare' "$1"/dev-*/state; else [[ $(<"$1/resync_start") != none ]]; fi
}
