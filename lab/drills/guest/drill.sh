#!/bin/bash
# The drill from inside the machine: what is asked here, raidlab outside answers.
# Usage: drill status|hint|commit|reset|debrief
set -euo pipefail

readonly folder=/run/raidlab/drill

say() { printf 'drill: %s\n' "$*" >&2; }

main() {
  local word="${1:-status}" id="$$-$RANDOM" waited
  case "$word" in
  status | hint | commit | reset | debrief) ;;
  *)
    sed -n '2,3s/^# //p' "$0" >&2
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
    # A debriefing takes its time; but whoever listens takes a request away at once.
    if ((waited == 50)) && [[ -s $folder/request ]]; then
      rm -f "$folder/request"
      say "nobody listens; type outside of this machine: raidlab drill $word"
      return 1
    fi
    sleep 0.1
  done
  say "no answer came"
  return 1
}

main "$@"
