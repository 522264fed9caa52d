#!/usr/bin/env bash
# Prints what this machine contains, as the members of a JSON object for the manifest beside its image.
set -euo pipefail

main() {
  local system
  # shellcheck source=/dev/null
  system="$(. /etc/os-release && printf '%s' "$PRETTY_NAME")"
  printf '"raidlab": "%s",\n' "$(raidlab --version | awk '{print $NF}')"
  printf '"system": "%s",\n' "$system"
  printf '"kernel": "%s",\n' "$(uname -r)"
  printf '"python": "%s",\n' "$(/opt/raidlab/venv/bin/python -I -c 'import platform; print(platform.python_version())')"
  printf '"packages": {\n'
  dpkg-query -W -f '${db:Status-Status} ${binary:Package} ${Version}\n' |
    sed -nE 's/^installed (\S+) (\S+)$/  "\1": "\2",/p' | sed '$s/,$//'
  printf '}\n'
}

main "$@"
