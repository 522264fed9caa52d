"""A fake checkout of mdadm: the suite prints the same messages as upstream's, the tests have a few lines."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Mapping
from pathlib import Path

# The messages and paths of upstream's script. Unlike upstream, a failing command ends a test: upstream has "set -e"
# in the condition of an if, where bash ignores it. After a test named *leaves, nothing is cleaned up.
SCRIPT = """#!/bin/bash
targetdir=/var/tmp
for word in "$@"; do
  case $word in
  --tests=*) name=${word#*=} ;;
  --logdir=*) logdir=${word#*=} ;;
  esac
done
losetup -D
[[ $name != *refused ]] || { echo "test: please run test suite without running RAIDs environment."; exit 1; }
[[ $name == *leaves ]] || trap 'mdadm -Ssq; losetup -D; rm -f $targetdir/mdtest*' 0
for number in 0 1 8; do losetup /dev/loop$number $targetdir/mdtest$number || exit 1; done
rm -f $targetdir/stderr
echo 0 > /sys/module/md_mod/parameters/start_ro
echo -ne "$PWD/tests/$name... "
(set -ex; . "$PWD/tests/$name") &> $targetdir/log
code=$?
if [[ $code == 0 ]]; then
  echo -ne "Execution time (seconds): 0 \\033[0;32msucceeded\\n\\033[0m"
  mv $targetdir/log "$logdir/$name.log"
  exit 0
fi
cp $targetdir/log "$logdir/$name.log"
[[ $code != 3 ]] || { echo -ne '\\033[1;33mskipping\\033[0m'; exit 0; }
echo "## $HOSTNAME: saving proc mdstat." > "$logdir/fail$name.log"
cat /proc/mdstat >> "$logdir/fail$name.log"
echo -ne '\\033[0;31mFAILED\\033[0m'
echo " - see $logdir/$name.log and $logdir/fail$name.log for details"
exit 1
"""
FUNCTIONS = "size=20000\n# ddf needs bigger devices\nddfsize=65536\n"
PASSES = "true\n"


def make_checkout(
    folder: Path, tests: Mapping[str, str], *, broken: Mapping[str, str] | None = None, program: str = ""
) -> Path:
    """``broken``: test -> content of its ``.broken`` file. ``program``: copied as mdadm and mdmon; empty: not built."""
    (folder / "tests").mkdir(parents=True)
    (folder / "test").write_text(SCRIPT)
    (folder / "mdadm.h").write_text("/* none */\n")
    (folder / "tests/func.sh").write_text(FUNCTIONS)
    for name, text in tests.items():
        (folder / "tests" / name).write_text(text)
    for name, text in (broken or {}).items():
        (folder / "tests" / f"{name}.broken").write_text(text)
    (folder / "udev-md-raid-arrays.rules").write_text('RUN+="BINDIR/mdadm"\n')
    for name in ("mdadm", "mdmon") if program else ():
        shutil.copy(program, folder / name)
    return folder


def picture(folder: Path) -> dict[str, tuple[int, ...] | str]:
    """All properties of the files in a folder, including times."""
    found: dict[str, tuple[int, ...] | str] = {}
    for path in sorted((folder, *folder.rglob("*"))):
        status = path.lstat()
        name = str(path.relative_to(folder))
        found[name] = (status.st_mode, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
        if path.is_file():
            found[f"{name} content"] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found
