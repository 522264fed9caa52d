# shellcheck shell=bash
# Sourced. Runs a command as root. If nobody can type a password, sudo does not ask for one.
as_root() {
  if ((EUID == 0)); then
    "$@"
  elif [[ -t 0 ]]; then
    sudo "$@"
  else
    sudo -n "$@"
  fi
}
