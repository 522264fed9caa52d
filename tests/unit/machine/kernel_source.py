"""A clone with the files that build-uml.sh reads, a miniature kernel source, and fake compilers."""

from __future__ import annotations

import os
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.waiting import wait_until

REPOSITORY = Path(__file__).resolve().parents[3]
SCRIPT = "provision/kernel/build-uml.sh"
PARTS = ("provision/kernel", "lab/disks/drive")
TOOLS = ("flex", "bison", "bc", "depmod", "xz", "strip")
LONGEST_SECONDS = 280.0
"""Just less than the limit of a whole test (pyproject.toml): a build takes seconds, or minutes on a busy computer."""

# An interrupted make removes the file whose recipe has not returned, even if it is complete. The others wait only for
# the file, so one.o must stay.
MAKEFILE = """\
objects := one.o two.o three.o
.PRECIOUS: one.o

kernelversion:
\t@echo 6.1.7
defconfig olddefconfig prepare modules:
\t@:
allnoconfig:
\t@grep -v CONFIG_MD_LINEAR $(KCONFIG_ALLCONFIG) > .config
linux: $(objects)
\t@cp /bin/true linux
\t@mkdir -p include/config && echo 6.1.7-raidlab-vt > include/config/kernel.release
$(objects):
\t@echo '  CC      $@'
\t@echo $@ >> $(COMPILED)
\t@test $@ = one.o || until test -e one.o -o -e $(GATE); do sleep 0.05; done
\t@test $@ = one.o || { echo $$$$ >> $(HELD); until test -e $(GATE); do sleep 0.05; done; }
\t@test ! -e wrong.c || { echo 'wrong.c:1: error: no such thing' >&2; exit 1; }
\t@touch $@
modules_install:
\t@mkdir -p $(INSTALL_MOD_PATH)/lib/modules/6.1.7-raidlab-vt/kernel
"""
PATCH = """\
Says another word. Why: to be tested.

--- a/greeting.c
+++ b/greeting.c
@@ -1 +1 @@
-hello
+goodbye
"""
BUG = """\
Says a third word. Why: to be found.

--- a/greeting.c
+++ b/greeting.c
@@ -1 +1 @@
-goodbye
+nothing
"""
FILES = {
    "Makefile": MAKEFILE,
    "greeting.c": "hello\n",
    "arch/um/drivers/Makefile": "obj-y :=\ninclude $(srctree)/arch/um/scripts/Makefile.rules\n",
    "arch/arm/kernel/head.S": "not unpacked\n",
    "arch/arm/Kconfig": "read\n",
    "scripts/kconfig/merge_config.sh": '#!/bin/sh\nshift; cat "$@" > .config\n',
}


class Workshop:
    """Folders for building kernels: ``clone`` of the repository, ``sources`` in place of /usr/src.

    Until the file ``gate`` exists, only the first file is compiled. ``held`` lists the processes of the last build that
    wait for it.
    """

    def __init__(self, root: Path) -> None:
        self.root, self.clone, self.sources = root, root / "clone", root / "src"
        self.kernels = root / "cache/raidlab/kernels"
        self.gate, self.held, self._log = root / "gate", root / "held", root / "compiled"
        self._held_builds = 0
        self.environment = {
            **os.environ,
            "XDG_CACHE_HOME": str(root / "cache"),
            "RAIDLAB_KERNEL_SOURCES": str(self.sources),
            "PATH": f"{root / 'tools'}:{os.environ['PATH']}",
            **{"GATE": str(self.gate), "HELD": str(self.held), "COMPILED": str(self._log)},
        }

    @property
    def compiled(self) -> list[str]:
        """The files compiled since the last call, sorted."""
        names = self._log.read_text().split() if self._log.exists() else []
        self._log.unlink(missing_ok=True)
        return sorted(names)

    def edit(self, name: str, text: str = "\n# another\n") -> None:
        """Append to a file of the clone."""
        path = self.clone / name
        path.write_text(path.read_text() + text)

    def place_source(self, name: str = "linux-source-6.1.tar.gz", **changed: str) -> Path:
        """Create a tarball. ``changed``: file (with an underscore for the dot) -> content; empty: no such file."""
        files = {**FILES, **{key.replace("_", "."): text for key, text in changed.items()}}
        tree = self.root / "tree" / name
        for path, text in files.items():
            if text:
                (tree / path).parent.mkdir(parents=True, exist_ok=True)
                (tree / path).write_text(text)
                (tree / path).chmod(0o755)
        with tarfile.open(self.sources / name, "w:gz") as tar:
            tar.add(tree, "linux-source")
        shutil.rmtree(tree)
        return self.sources / name

    def argv(self, *words: str) -> list[str]:
        """The build handles SIGINT even if the tests were started with it ignored."""
        return ["env", "--default-signal=INT", str(self.clone / SCRIPT), *words]

    def build(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.argv(*words),
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=LONGEST_SECONDS,
            check=False,
        )

    @contextmanager
    def begun(self, *words: str) -> Iterator[subprocess.Popen[str]]:
        """Start a build in the background, with its output in one pipe; kill it at the end."""
        argv, environment = self.argv(*words), self.environment
        with subprocess.Popen(
            argv, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as build:
            try:
                yield build
            finally:
                build.kill()

    @contextmanager
    def held_up(self, *words: str) -> Iterator[subprocess.Popen[str]]:
        """Start a build that waits while compiling; open the gate at the end."""
        self.gate.unlink()
        # A new file for each build: processes of the previous build, which was killed, may still write to theirs.
        self._held_builds += 1
        self.held = self.root / f"held-{self._held_builds}"
        self.environment["HELD"] = str(self.held)
        with self.begun(*words) as build:
            # The file exists before its first line is complete.
            wait_until(lambda: self.held.exists() and self.held.read_text().endswith("\n"))
            yield build
        self.gate.touch()

    @property
    def tree(self) -> Path:
        """The source tree of an interrupted build."""
        (found,) = (self.kernels / ".build").glob("*/tree")
        return found


def make_workshop(root: Path) -> Workshop:
    """Create a workshop with a small patch and a small bug in place of the real ones; the gate is open."""
    shop = Workshop(root)
    shop.sources.mkdir()
    for part in PARTS:
        shutil.copytree(REPOSITORY / part, shop.clone / part, ignore=shutil.ignore_patterns("__pycache__"))
    for folder, name, text in (("patches", "word.patch", PATCH), ("planted", "01-word.patch", BUG)):
        for patch in (shop.clone / "provision/kernel" / folder).iterdir():
            patch.unlink()
        (shop.clone / "provision/kernel" / folder / name).write_text(text)
    tools = root / "tools"
    tools.mkdir()
    programs = dict.fromkeys(TOOLS, "#!/bin/sh\n")
    programs["gcc"] = '#!/bin/sh\nwhile test "$1" != -o; do shift; done\necho built > "$2"\n'
    programs["uname"] = "#!/bin/sh\necho x86_64\n"
    for name, text in programs.items():
        (tools / name).write_text(text)
        (tools / name).chmod(0o755)
    shop.gate.touch()
    return shop
