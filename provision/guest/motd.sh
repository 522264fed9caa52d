#!/usr/bin/env bash
# Installs the message at login, which says what to type. A virtual lab shows no other message.
set -euo pipefail

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
readonly here

main() {
  # PAM on Debian and Ubuntu runs the files in this folder, so one that prints a file is enough.
  install -D -m 644 "$here/files/motd" /usr/local/share/raidlab/motd
  install -D -m 755 "$here/files/90-raidlab" /etc/update-motd.d/90-raidlab
}

main "$@"
