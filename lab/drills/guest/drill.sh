#!/bin/bash
# Control the drill from inside the machine. raidlab runs outside, and answers what is typed here.
# Usage: drill status|hint|commit|reset|debrief
#        drill debrief --as-it-is   ends the drill even if no running array has the data
set -euo pipefail

readonly folder=/run/raidlab/drill

say() { printf 'drill: %s\n' "$*" >&2; }

main() {
  local word="${1:-status}" id="$$-$RANDOM" waited
  [[ $* != "debrief --as-it-is" ]] || word=end
  case "$word" in
  status | hint | commit | reset | debrief | end) ;;
  *)
    sed -n '2,4s/^# //p' "$0" >&2
    return 2
    ;;
  esac
  printf '%s %s\n' "$id" "$word" >"$folder/request.$id"
  mv "$folder/request.$id" "$folder/request"
  for ((waited = 0; waited < 600; waited++)); do
    if [[ -e $folder/answer.$id ]]; then
      cat "$folder/answer.$id"
      rm -f "$folder/answer.$id"
      return 0
    fi
    # A debriefing takes a while, but a client that listens takes the request immediately.
    if ((waited == 50)) && [[ -s $folder/request ]]; then
      rm -f "$folder/request"
      say "raidlab is not listening; type this outside the machine: raidlab drill ${*:-status}"
      return 1
    fi
    sleep 0.1
  done
  say "raidlab did not answer"
  return 1
}

main "$@"
