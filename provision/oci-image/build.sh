#!/usr/bin/env bash
# Builds a container image: a small Debian with raidlab, QEMU, a kernel for QEMU and, on amd64, User Mode Linux. This
# needs no daemon, no registry and no root, because umoci makes an image from the system's files. The archive is an OCI
# image layout (https://github.com/opencontainers/image-spec) for podman load and docker load.
# Usage: build.sh amd64|arm64 [FILE]      default: dist/raidlab-oci-ARCHITECTURE.tar. Exit 3: something is missing.
set -euo pipefail

# The name contains a host, as podman(1) would complete it, because Docker keeps the name in the archive.
readonly name=localhost/raidlab:latest
readonly user=student id=1000
# shellcheck source=provision/root-image/system.sh
source "$(dirname "${BASH_SOURCE[0]}")/../root-image/system.sh"
here="$repository/provision/oci-image"
readonly here
# shellcheck source=provision/host/wheels.sh
source "$repository/provision/host/wheels.sh"

say() { printf 'container image: %s\n' "$*" >&2; }

# Puts raidlab in a virtual environment, as files below FOLDER at their places in the image.
raidlab() {
  local folder="$1" architecture="$2" environment="$1/opt/raidlab/venv" version site kernels options
  # The image has this computer's release, and therefore its Python.
  version="$(/usr/bin/python3 -IS -c 'import sys; print("%d.%d" % sys.version_info[:2])')"
  site="$environment/lib/python$version/site-packages"
  mkdir -p "$environment/bin" "$site" "$folder/usr/local/bin"
  mapfile -t options < <(wheels_for "$version" "$architecture")
  pip install --no-compile --no-deps --target "$site" --require-hashes -r requirements/runtime.txt "${options[@]}" ||
    fail "the requirements could not be installed; next: look at the network (or a proxy's settings), then run this again"
  # The commands of other packages, and raidlab's own below, contain the path of this computer's interpreter.
  rm -rf "${site:?}/bin"
  pip install --no-compile --no-deps --target "$site" --no-build-isolation --no-index .
  rm -rf "${site:?}/bin"
  install -m 755 provision/raidlab "$environment/bin/raidlab"
  printf 'home = /usr/bin\ninclude-system-site-packages = false\n' >"$environment/pyvenv.cfg"
  ln -s /usr/bin/python3 "$environment/bin/python"
  ln -s /opt/raidlab/venv/bin/raidlab "$folder/usr/local/bin/raidlab"
  # Nothing imports a file that does not compile.
  /usr/bin/python3 -IS -m compileall -q -j 0 -x '/tests/' -s "$folder" -p / --invalidation-mode unchecked-hash "$site" >&2 || true
  kernels="${XDG_CACHE_HOME:-$HOME/.cache}/raidlab/kernels/virtual-time"
  [[ $architecture == amd64 ]] || return 0
  mkdir "$site/kernels"
  "$repository/provision/kernel/build-registers.sh" "$site/kernels/wide_registers.so"
  [[ ! -d $kernels ]] || cp -r "$kernels" "$site/kernels/"
}

# Prints the whole file system as tar.
# shellcheck disable=SC2016
file_system() {
  local architecture="$1" codename="$2" work="$3" packages="$repository/provision/host/packages"
  lists+=("$here/packages.txt" "$packages/qemu.txt")
  case $architecture in
  amd64) lists+=("$packages/qemu-x86_64.txt" "$packages/lab-debian.txt") ;;
  arm64) lists+=("$packages/qemu-aarch64.txt") ;;
  esac
  mkdir "$work/files"
  raidlab "$work/files" "$architecture"
  tar -C "$work/files" --owner=0 --group=0 -cf "$work/raidlab.tar" .
  rm -rf "$work/files"
  say "unpacking Debian's packages ($codename, $architecture); this takes a few minutes"
  lab_system "$codename" "$architecture" --skip=output/dev \
    --extract-hook="tar-in '$work/raidlab.tar' /" \
    --extract-hook="echo '$user:x:$id:$id::/home/$user:/bin/bash' >>\"\$1/etc/passwd\" && echo '$user:x:$id:' >>\"\$1/etc/group\"" \
    --extract-hook="cp -r \"\$1/etc/skel\" \"\$1/home/$user\" && chown -R $id:$id \"\$1/home/$user\" && chmod 700 \"\$1/home/$user\"" \
    >"$work/system.tar"
  rm "$work/raidlab.tar"
}

# Makes the system the image's only layer.
image() {
  local architecture="$1" work="$2" layout="$2/layout" created
  created="$(date --utc --date "@$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ)"
  umoci init --layout "$layout"
  umoci new --image "$layout:$name"
  umoci raw add-layer --no-history --image "$layout:$name" "$work/system.tar"
  rm "$work/system.tar"
  umoci config --no-history --image "$layout:$name" --os linux --architecture "$architecture" --created "$created" \
    --config.user "$id:$id" --config.workingdir "/home/$user" --config.entrypoint /usr/bin/tini --config.entrypoint -- \
    --config.cmd raidlab --config.env PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    --config.env LANG=C.UTF-8 --config.env TERM=xterm-256color
  umoci gc --layout "$layout"
}

main() {
  local architecture="${1:-}" codename target
  check_architecture "$architecture" build.sh
  target="$(realpath --canonicalize-missing "${2:-$repository/dist/raidlab-oci-$architecture.tar}")"
  cd "$repository"
  "$repository/provision/host/packages.sh" root-image oci-image
  "$repository/provision/host/venv.sh" runtime
  codename="$(debian_release)"
  mkdir -p "$(dirname "$target")"
  work="$(mktemp -d "$target.XXXXXX")"
  # shellcheck disable=SC2064
  trap "rm -rf '$work'" EXIT
  file_system "$architecture" "$codename" "$work"
  say "making the image"
  image "$architecture" "$work"
  /usr/bin/python3 -IS "$here/docker_manifest.py" "$work/layout"
  tar -C "$work/layout" --sort=name --owner=0 --group=0 --mtime="@$SOURCE_DATE_EPOCH" -cf "$work/image.tar" .
  mv "$work/image.tar" "$target"
  say "$(du -m "$target" | cut -f 1) MiB in $target; next: podman load -i $target && podman run -it ${name%:*}"
}

main "$@"
