#!/usr/bin/env bash
# Installs or updates raidlab from a folder of wheels, without network, as /opt/raidlab/venv and /usr/local/bin/raidlab.
# The old version remains in use until the new one is complete. Usage, as root: install-raidlab.sh WHEELHOUSE
set -euo pipefail

readonly home=/opt/raidlab
umask 022
# shellcheck disable=SC2086
unset ${!PYTHON@}

say() { printf 'raidlab: %s\n' "$*" >&2; }

choose_python() {
  local candidate
  for candidate in /usr/bin/python3 /usr/bin/python3.13 /usr/bin/python3.12 /usr/bin/python3.11; do
    if "$candidate" -I -c 'import ensurepip, sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
      printf '%s\n' "$candidate"
      return
    fi
  done
  say "Python 3.11 or later with venv is needed; next: provision/guest/packages.sh"
  return 3
}

# Prints a word that identifies what would be installed: requirements, a dash, raidlab. A second run with the same
# wheels does nothing.
fingerprint() {
  cd "$2"
  { printf '%s\n' "$1" && find . -name '*.whl' ! -name 'raidlab-*' -print0 | sort -z | xargs -0 sha256sum; } | sha256sum | cut -c 1-12 | tr '\n' -
  sha256sum raidlab-*.whl | cut -c 1-12
}

# The distribution's own pip is used, because a copy in each environment would take longer than everything else.
install_into() {
  local venv="$1" python="$2" wheelhouse="$3" alike pip code
  rm -rf "$venv"
  pip="$(find /usr/share/python-wheels -name 'pip-*.whl' | head -n 1)"
  alike="$(find "$home" -maxdepth 2 -path "${venv%-*}-*/complete" | head -n 1)"
  if [[ -n $alike ]]; then
    # Only raidlab's code differs, so the requirements are shared with the previous version as hard links. The mark is
    # not copied, because an interrupted update would look complete.
    mkdir "$venv"
    find "$(dirname "$alike")" -mindepth 1 -maxdepth 1 ! -name complete -exec cp -al -t "$venv" {} +
    sed -i --follow-symlinks "s|$(dirname "$alike")|$venv|" "$venv/pyvenv.cfg"
  else
    "$python" -I -m venv --without-pip "$venv"
  fi
  # With -P, modules are not searched for in this folder, but only in the wheel of pip.
  PYTHONPATH="$pip" "$venv/bin/python" -P -s -m pip install --quiet --no-input \
    --disable-pip-version-check --no-warn-script-location --root-user-action=ignore --no-index --find-links "$wheelhouse" \
    --no-compile ${alike:+--force-reinstall} ${alike:+--no-deps} raidlab
  if [[ -n $alike ]]; then code=("$venv"/lib/python3*/site-packages/{lab,tui}); else code=("$venv/lib"); fi
  # pip would compile on one processor, and this step takes longest under emulation. The packages' tests are not needed.
  # Nothing imports a file that does not compile.
  "$venv/bin/python" -I -m compileall -q -j 0 -x '/tests/' "${code[@]}" >/dev/null 2>&1 || true
  # An incomplete environment must not look complete.
  "$venv/bin/raidlab" --version >/dev/null
  # The files must be on the disk before they are used, because a power cut would leave them empty.
  sync -f "$venv"
  touch "$venv/complete"
}

main() {
  local wheelhouse python name previous
  wheelhouse="$(cd "${1:?a folder of wheels}" && pwd)"
  ls "$wheelhouse"/raidlab-*.whl >/dev/null || {
    say "$wheelhouse has no wheel of raidlab; next: provision/host/wheelhouse.sh FOLDER"
    return 2
  }
  python="$(choose_python)"
  name="$(fingerprint "$(realpath "$python")" "$wheelhouse")"
  mkdir -p "$home"
  previous="$(readlink "$home/venv" || true)"
  exec 9>"$home/lock"
  flock 9
  if [[ ! -e $home/$name/complete || "$(readlink "$home/venv")" != "$name" ]]; then
    [[ -e $home/$name/complete ]] || install_into "$home/$name" "$python" "$wheelhouse"
    ln -sfn "$name" "$home/venv.new"
    mv -T "$home/venv.new" "$home/venv"
    sync -f "$home"
    say "installed $("$home/venv/bin/raidlab" --version)"
  fi
  ln -sfn "$home/venv/bin/raidlab" /usr/local/bin/raidlab
  # The previous version remains, because it may be in use.
  find "$home" -mindepth 1 -maxdepth 1 -type d ! -name "$name" ! -name "${previous:-$name}" -exec rm -rf {} +
}

main "$@"
