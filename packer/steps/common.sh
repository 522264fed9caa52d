# shellcheck shell=bash
# Sourced. Functions that the steps of a bake share.

packer_folder="$(cd -P "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
repository="$(dirname "$packer_folder")"
# shellcheck disable=SC2034
readonly packer_folder repository output="$packer_folder/output"

# shellcheck source=provision/host/as-root.sh
source "$repository/provision/host/as-root.sh"

say() { printf 'image: %s\n' "$*" >&2; }

fail() {
  say "$1"
  exit "${2:-1}"
}

variables_of() { printf '%s\n' "$packer_folder/images/$1.pkrvars.hcl"; }

images() {
  local names=("$packer_folder"/images/*.pkrvars.hcl)
  printf '%s\n' "${names[@]##*/}" | sed 's/\.pkrvars\.hcl$//' | LC_ALL=C sort | paste -sd ' '
}

# Prints a string variable of an image's file, or nothing if it is not set there.
image_variable() { sed -nE "s/^$2\s*=\s*\"(.*)\"\s*$/\1/p" "$(variables_of "$1")"; }

architecture_of() {
  local named
  named="$(image_variable "$1" architecture)"
  printf '%s\n' "${named:-amd64}"
}

# KVM runs only this computer's own architecture. On a PC, the processor's flags decide, because the device may exist,
# and even open, although a guest would hang. Usage: best_accelerator IMAGE
best_accelerator() {
  case "$(architecture_of "$1")-$(uname -m)" in
  amd64-x86_64) grep -qwE 'vmx|svm' /proc/cpuinfo || { echo tcg && return; } ;;
  arm64-aarch64) ;;
  *) echo tcg && return ;;
  esac
  if [[ -r /dev/kvm && -w /dev/kvm ]]; then echo kvm; else echo tcg; fi
}

expected_time() { if [[ $1 == kvm ]]; then echo "about two minutes"; else echo "emulated, five to eight minutes on two CPUs"; fi; }

needs_init() { ! packer version | grep -qE '^Packer v1\.([0-6])\.'; }

run_packer() {
  local image="$1" work="$2" accelerator="$3" arguments=()
  export CHECKPOINT_DISABLE=1 PACKER_CACHE_DIR="$output/.downloads" PACKER_NO_COLOR=1 TMPDIR="$work"
  ! needs_init || packer init "$packer_folder/plugins" >&2
  [[ ! -f $work/base.qcow2 ]] || arguments=(-var "image_url=file://$work/base.qcow2" -var "image_checksum=sha256:$(<"$work/base.sha256")")
  # Packer ends its machine when it gets SIGTERM, which it gets when this script ends.
  setpriv --pdeathsig TERM packer build -color=false -timestamp-ui -var-file="$(variables_of "$image")" -var "work_dir=$work" \
    -var "accelerator=$accelerator" "${arguments[@]}" "$packer_folder" </dev/null 2>&1 | tee "$output/$image.log" >&2 || {
    [[ ! -s $work/console.log ]] || {
      say "the last lines of the machine's console:"
      tail -n 20 "$work/console.log" | tee -a "$output/$image.log" >&2
    }
    fail "Packer could not bake $image; the reason is above and in $output/$image.log"
  }
}
