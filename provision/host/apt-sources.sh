# shellcheck shell=bash
# Sourced. The package sources of this computer, so that a system created here uses the same ones.

# Prints Debian's own sources, as apt knows them here, as lines of sources.list with the names of the given release.
debian_sources() {
  local release="$1" own
  own="$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)"
  # shellcheck disable=SC2016
  apt-get indextargets --format 'deb $(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' 'Origin: Debian' |
    sed -nE "s/ $own((-updates|-security)?) / $release\1 /p" | sort -u
}

# Prints how apt reaches the sources, as lines of apt.conf.
apt_access() {
  apt-config dump | grep -E '^Acquire::(http|https)::Proxy|^Acquire::Check-(Valid-Until|Date)' || true
  [[ -z ${http_proxy:-} ]] || printf 'Acquire::http::Proxy "%s";\n' "$http_proxy"
}

# Prints a system of Debian's packages as tar. They are only unpacked and never run, so this works for any architecture
# and as an ordinary user. Further arguments are hooks of mmdebstrap(1).
# Usage: unpacked_debian CODENAME ARCHITECTURE NAME,NAME... [OPTION...]
unpacked_debian() {
  local options=() line
  while read -r line; do options+=("--aptopt=$line"); done < <(apt_access)
  # If mmdebstrap fails, it ends its whole process group, so it gets a new one.
  debian_sources "$1" | SOURCE_DATE_EPOCH="${SOURCE_DATE_EPOCH:-0}" setsid --wait setpriv --pdeathsig TERM \
    mmdebstrap --quiet --mode=unshare --variant=extract --architectures="$2" --include="$3" "${options[@]}" \
    --hook-dir=/usr/share/mmdebstrap/hooks/merged-usr "${@:4}" "$1" - -
}
