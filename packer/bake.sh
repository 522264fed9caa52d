#!/usr/bin/env bash
# Bakes the Vagrant box of an image if the box is missing or older than its inputs.
# Usage: bake.sh IMAGE [--force] [--accelerator kvm|tcg]      bake.sh --status IMAGE: prints missing, stale or current
# Result: packer/output/IMAGE/{raidlab-IMAGE.box,raidlab-IMAGE.box.sha256,manifest.json}, either all three or none.
# Packer's output is in packer/output/IMAGE.log. Exit 2: the arguments are wrong. 3: something is missing on this
# computer.
set -euo pipefail

here="$(cd -P "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
readonly here
# shellcheck source=packer/steps/common.sh
source "$here/steps/common.sh"

force=false accelerator="${RAIDLAB_ACCELERATOR:-auto}" only_status=false image=""

parse() {
  while (($#)); do
    case "$1" in
    --force) force=true ;;
    --status) only_status=true ;;
    --accelerator) accelerator="${2:-}" && shift ;;
    -*) fail "no such option: $1; next: bake.sh IMAGE [--force] [--accelerator kvm|tcg], or bake.sh --status IMAGE" 2 ;;
    *)
      [[ -z $image ]] || fail "one image at a time: $image or $1" 2
      image="$1"
      ;;
    esac
    shift || break
  done
  [[ -n $image ]] || fail "which image? next: bake.sh IMAGE, one of $(images)" 2
  [[ -f $(variables_of "$image") ]] || fail "there is no image '$image'; there are $(images)" 2
  [[ $accelerator == auto || $accelerator == kvm || $accelerator == tcg ]] ||
    fail "the accelerator is kvm, tcg or auto, not '$accelerator'" 2
}

bake() {
  local work="$1" started
  started="$(date +%s)"
  "$here/steps/status.sh" --inputs "$image" >"$work/inputs"
  "$here/steps/base.sh" "$image" "$work"
  "$here/steps/payload.sh" "$image" "$work"
  run_packer "$image" "$work" "$accelerator"
  "$here/steps/box.sh" "$image" "$work" "$accelerator" "$started"
}

main() {
  local state work
  parse "$@"
  state="$("$here/steps/status.sh" "$image")"
  if [[ $only_status == true ]]; then
    printf '%s\n' "$state"
    return
  fi
  mkdir -p "$output"
  exec 9>"$output/.lock"
  flock --nonblock 9 || { say "another bake is running; waiting for its end" && flock 9; }
  # The other bake may have made this image.
  state="$("$here/steps/status.sh" "$image")"
  if [[ $state == current && $force == false ]]; then
    say "$image is current: $output/$image/raidlab-$image.box"
    return
  fi
  [[ $accelerator != auto ]] || accelerator="$(best_accelerator "$image")"
  "$here/steps/require.sh" "$image"
  "$here/steps/recover.sh"
  work="$(mktemp -d "$output/.bake-$image.XXXXXX")"
  # shellcheck disable=SC2064
  trap "'$here/steps/recover.sh'" EXIT
  say "baking $image ($([[ $force == true ]] && echo forced || echo "$state")) with $accelerator; $(expected_time "$accelerator")"
  bake "$work" 9>&-
}

main "$@"
