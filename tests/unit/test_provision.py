"""The scripts that set up a computer: what they never overwrite, and what an interruption leaves."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.unit.image.conftest import REPOSITORY, run


@pytest.mark.parametrize(
    ("command", "own"),
    [
        (("provision/host/wheelhouse.sh",), "raidlab-1-py3-none-any.whl"),
        (("provision/root-image/build.sh", "amd64"), "root.squashfs"),
    ],
)
def test_a_folder_with_other_files_is_not_replaced(tmp_path: Path, command: tuple[str, ...], own: str) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    for name in (own, "thesis.txt"):
        (folder / name).touch()
    answer = run(*command, str(folder), cwd=REPOSITORY, environment={"XDG_CACHE_HOME": str(tmp_path / "cache")})
    assert (answer.returncode, f"{folder} contains other files; next: give a new folder" in answer.stderr) == (2, True)
    assert sorted(path.name for path in tmp_path.rglob("*")) == sorted(["mine", own, "thesis.txt"])


def test_a_folder_that_the_script_made_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "a.whl").touch()
    check = f"source provision/host/own-folder.sh; is_free_or_own '{tmp_path}' '*.whl'"
    assert run("bash", "-c", check, cwd=REPOSITORY, environment={}).returncode == 0
    (tmp_path / "folder.whl").mkdir()
    assert run("bash", "-c", check, cwd=REPOSITORY, environment={}).returncode == 1


@pytest.fixture
def computer(tmp_path: Path) -> Path:
    """Programs of a computer without packages: sudo works, and apt-get stores the policy that it finds."""
    programs = {
        "sudo": '[ "$1" != -n ] || shift\nexec "$@"',
        "dpkg-query": "exit 0",
        "systemctl": "exit 0",
        "apt-get": f"cat '{tmp_path}/policy' >>'{tmp_path}/seen'; [ -z \"$KILLED\" ] || kill -KILL $PPID",
    }
    (tmp_path / "bin").mkdir()
    for name, script in programs.items():
        (tmp_path / "bin" / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / "bin" / name).chmod(0o755)
    return tmp_path


def install(computer: Path, killed: str = "") -> int:
    environment = {
        "PATH": f"{computer}/bin:{os.environ['PATH']}",
        "RAIDLAB_POLICY": f"{computer}/policy",
        "KILLED": killed,
    }
    return run("provision/host/packages.sh", "registers", cwd=REPOSITORY, environment=environment).returncode


def test_a_policy_against_services_is_there_only_while_packages_are_installed(computer: Path) -> None:
    assert install(computer) == 0
    assert "exit 101" in (computer / "seen").read_text()
    assert sorted(path.name for path in computer.iterdir()) == ["bin", "seen"]


def test_the_policy_of_a_killed_run_is_removed_by_the_next(computer: Path) -> None:
    assert install(computer, killed="yes") == 3
    assert "raidlab" in (computer / "policy").read_text()
    # Now nothing is missing.
    names = (REPOSITORY / "provision/host/packages/registers.txt").read_text().splitlines()
    lines = "".join(f"echo installed {name.partition('#')[0].strip()}\n" for name in names)
    (computer / "bin/dpkg-query").write_text(f"#!/bin/sh\n{lines}")
    assert install(computer) == 0
    assert not (computer / "policy").exists()


def test_the_policy_of_somebody_else_stays(computer: Path) -> None:
    (computer / "policy").write_text("#!/bin/sh\nexit 101\n")
    assert install(computer) == 0
    assert (computer / "policy").read_text() == "#!/bin/sh\nexit 101\n"


def test_an_update_that_is_interrupted_does_not_look_complete(tmp_path: Path) -> None:
    home, before = tmp_path / "home", tmp_path / "home/same-before"
    (before / "bin").mkdir(parents=True)
    for name in ("complete", "pyvenv.cfg", "bin/python"):
        (before / name).touch()
    # Kills the script after the copy.
    (tmp_path / "cp").write_text('#!/bin/sh\n/usr/bin/cp "$@"\nkill -KILL $PPID\n')
    (tmp_path / "cp").chmod(0o755)
    script = (REPOSITORY / "provision/guest/install-raidlab.sh").read_text()
    script = script.replace("home=/opt/raidlab", f"home='{home}'").replace("/usr/share/python-wheels", str(tmp_path))
    script = script.replace('\nmain "$@"', f"\ninstall_into '{home}/same-after' python wheels")
    path = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    assert run("bash", "-c", script, cwd=tmp_path, environment=path).returncode != 0
    assert sorted(each.name for each in (home / "same-after").iterdir()) == ["bin", "pyvenv.cfg"]


def test_an_environment_whose_python_is_another_release_is_not_ready(tmp_path: Path) -> None:
    for name in ("provision/host/venv.sh", "requirements/runtime.txt", "pyproject.toml"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(REPOSITORY / name, tmp_path / name)
    script = tmp_path / "provision/host/venv.sh"
    ask = '\nmkdir -p "$venv"\ninputs_hash runtime >"$venv/ready-runtime"\nis_ready runtime'
    script.write_text(script.read_text().replace('\nmain "$@"', ask))
    python = tmp_path / ".venv/bin/python"
    python.parent.mkdir(parents=True)
    for status in (0, 1):
        python.write_text(f"#!/bin/sh\nexit {status}\n")
        python.chmod(0o755)
        assert run(str(script), cwd=tmp_path, environment={}).returncode == status
