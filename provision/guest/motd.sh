#!/usr/bin/env bash
# The message at login: what to type. A virtual lab greets with nothing else.
set -euo pipefail

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
readonly here

main() {
  # Debian's and Ubuntu's PAM print the files of this folder by running them; one that prints a file is enough.
  install -D -m 644 "$here/files/motd" /usr/local/share/raidlab/motd
  install -D -m 755 "$here/files/90-raidlab" /etc/update-motd.d/90-raidlab
}

main "$@"
