#!/usr/bin/env bash
# What a release is tried with: the lab without a terminal on a short experiment, then the part of the kernel tier that meets
# most of what differs between releases: kernel, mdadm, fio, nbdkit, the C library, Python.
set -euo pipefail

main() {
  local files=(tests/kernel/test_{grow,disks,machine,filesystem_and_workloads,cli}.py)
  cd -P "$(dirname "${BASH_SOURCE[0]}")/../.."
  make lab EXPERIMENT=tests/distributions/short.toml
  .venv/bin/pytest -n auto --dist loadfile --no-loadscope-reorder -m kernel "${files[@]}"
}

main "$@"
