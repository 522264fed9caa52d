#!/usr/bin/env bash
# The tests for another release: a short experiment without a terminal, then the part of the kernel tier that uses most
# of what differs between releases: kernel, mdadm, fio, nbdkit, the C library, Python.
set -euo pipefail

main() {
  local files=(tests/kernel/test_{grow,disks,machine,filesystem_and_workloads,cli}.py)
  cd -P "$(dirname "${BASH_SOURCE[0]}")/../.."
  make lab EXPERIMENT=tests/distributions/short.toml
  .venv/bin/pytest -n auto --dist loadfile --no-loadscope-reorder -m kernel "${files[@]}"
}

main "$@"
