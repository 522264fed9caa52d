# shellcheck shell=bash
# Sourced in the repository's folder. Runs pip without this computer's settings for Python, for any processor's wheels.

# shellcheck disable=SC2086
unset ${!PYTHON@}
export PYTHONNOUSERSITE=1

pip() { .venv/bin/python -I -m pip --quiet --no-input --disable-pip-version-check "$@" >&2; }

# Prints the options, one per line, with which pip chooses wheels for a different Python and processor.
# Usage: wheels_for PYTHON amd64|arm64      PYTHON is a version such as 3.11
wheels_for() {
  local machine platform
  case "$2" in
  amd64) machine=x86_64 ;;
  arm64) machine=aarch64 ;;
  *) return 2 ;;
  esac
  printf '%s\n' --only-binary=:all: --implementation cp --python-version "$1" --abi "cp${1/./}" --abi abi3 --abi none
  for platform in manylinux_2_28 manylinux_2_17 manylinux2014; do printf '%s\n' --platform "${platform}_$machine"; done
}
