"""Shell scripts: a fio command is judged as a job file is, mdadm's lines in order, and what is not read is said."""

from __future__ import annotations

from contextlib import suppress

import pytest

from lab.errors import SpecError
from lab.lint.fio_checks import lint_job_file
from lab.publications.recipes import lint_shell, parse_mdadm
from lab.publications.shell import Word, read_script

WRITER = "fio --name=x --filename=/dev/md0 --rw=randwrite --bs=4k --size=1G"
JOB = "[x]\nfilename=/dev/md0\nrw=randwrite\nbs=4k\nsize=1G\n"
BROKEN = {"runtime-short", "buffered-writer"}
CREATE = "mdadm --create /dev/md0 --level=5 --raid-devices=3 /dev/sda /dev/sdb /dev/sdc\n"
AGAIN = "mdadm --create /dev/md1 --level=1 --raid-devices=2 /dev/sda /dev/sdb\n"


def rules(text: str) -> set[str]:
    return {finding.rule_id for finding in lint_shell(text)}


def words_of(text: str) -> list[tuple[str, ...]]:
    return [command.argv for command in read_script(text).commands]


def test_a_command_breaks_what_the_same_job_breaks_in_a_file() -> None:
    assert rules(WRITER) == {each.rule_id for each in lint_job_file(JOB)} == BROKEN


SPELLINGS = [
    f"#!/bin/sh\n{WRITER}\n",
    f"sudo {WRITER}",
    f"sudo -u root env LC_ALL=C X=1 {WRITER}",
    f"time {WRITER} > out.txt 2>&1",
    f"nice -n 10 ionice -c 2 -n 0 taskset -c 0-3 {WRITER}",
    f"timeout -k 5 60 /usr/bin/{WRITER}",
    WRITER.replace(" --", " \\\n   --"),
    f"cd /tmp && {WRITER} && echo done",
    f"{WRITER} --output=out.json --output-format=json",
    f"for bs in 4k 64k; do {WRITER.replace('4k', '$bs')}; done",
    "for i in {1..3}\ndo\n  " + WRITER + "\ndone",
    f"while true; do {WRITER}; done",
    f"if [ -b /dev/md0 ]; then\n  {WRITER}\nelse\n  echo 'no array'\nfi",
    f"run() {{\n  {WRITER}\n}}\nrun",
    f"case $1 in\n  a) {WRITER} ;;\n  b|c) echo fio ;;\nesac",
    "DEV=/dev/md0\nOPTS='--rw=randwrite --bs=4k'\nfio --name=x --filename=$DEV $OPTS --size=1G",
    f'R="$({WRITER} --output-format=json | jq .)"',
    f"R=`{WRITER} --output-format=json`",
    f"bash -c '{WRITER}'",
    f'sudo sh -c "{WRITER}"',
    f"eval {WRITER}",
    f"( {WRITER} ) &",
    f"{WRITER} | tee log",
    "fio --name x --filename /dev/md0 --rw randwrite --bs 4k --size 1G",
    "fio --filename=/dev/md0 --rw=randwrite --bs=4k --size=1G",
    "fio --rw=randwrite --bs=4k --size=1G --name=x --filename=/dev/md0",
    "fio --name=global --filename=/dev/md0 --rw=randwrite --size=1G --name=a --bs=4k",
    f"fio - <<EOF\n{JOB}EOF\n",
    f"fio - <<'EOF'\n{JOB}EOF\n",
    f"cat > /tmp/job.fio <<EOF\n{JOB}EOF\nfio /tmp/job.fio\n",
    f"tee job.fio >/dev/null <<-EOF\n\t{JOB.strip()}\n\tEOF\nsudo fio job.fio --output-format=json",
    "DEV=/dev/md0\nfio - <<EOF\n" + JOB.replace("/dev/md0", "${DEV}") + "EOF\n",
    f"echo start; {WRITER}; echo 'it''s \"over\"' # fio with $(nothing)",
]


@pytest.mark.parametrize("text", SPELLINGS)
def test_however_the_command_is_written(text: str) -> None:
    assert rules(text) == BROKEN


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "fio --rw=write --ioengine=sync --fdatasync=1 --directory=test-data --size=22m --bs=2300 --name=mytest",
            set(),
        ),
        (
            "fio --filename=/dev/md0 --rw=randwrite --iodepth=32 --size=1g --numjobs=8",
            {"depth-without-async", "buffered-writer", "runtime-short", "jobs-unsummed"},
        ),
        ("fio --name=a --rw=read --time_based --runtime 30 --exec_prerun=true", {"foreign-command"}),
        ("fio --name=a --rw=read --time_based --runtime=30 --trigger='echo b'", {"foreign-command"}),
        ("fio --name=a --rw=read --time_based --runtime=30 --client=host", {"foreign-command"}),
        ("fio --name=a --rw=read --time_based --runt=30 --bssplit=4k/50:8k/50", {"not-played-here"}),
        ("fio --name=a --rw=read --time_based --runtime=30 --bs=$BS", {"not-analysed"}),
        ("fio --name=a --rw=read --time_based --runtime=30 --no-such=1", {"not-analysed"}),
        ("fio --name=a --rw=read --time_based --runtime=30 --eta=never --group_reporting", set()),
        ("fio --version; fio --help; fio --cmdhelp=bs; which fio; apt-get install -y fio mdadm", set()),
        ("fio job.fio", {"not-analysed"}),
        ("fio - < job.fio", {"not-analysed"}),
        ("fio $OPTS", {"not-analysed"}),
        ('fio "$@" --name=x', {"not-analysed"}),
        ('fio "${OPTS[@]}"', {"not-analysed"}),
        ("fio --name=x $(cat options)", {"not-analysed"}),
        ("$FIO --name=x --rw=randwrite", {"not-analysed"}),
        (f"ssh host {WRITER}", {"not-analysed"}),
        (f"ssh host '{WRITER}'", {"not-analysed"}),
        (f"cat hosts | xargs -I% {WRITER}", {"not-analysed"}),
        (f"docker run --rm image {WRITER}", {"not-analysed"}),
        (f'sh -c "$PREFIX {WRITER}"', {"not-analysed"}),
        ("echo 'run fio --name=x by hand'\nprintf 'fio --rw=write'\n: fio", set()),
        ("sudo apt install fio && man fio", set()),
        ("fio a.fio > out.txt\nawk '/IOPS/' out.txt", {"human-output-parsed", "not-analysed"}),
        ("fio --output-format=json a.fio | grep iops", {"not-analysed"}),
        ("sudo dd if=/dev/urandom of=/mnt/f bs=1M conv=fdatasync && sync", set()),
        ("", set()),
    ],
)
def test_a_fio_line(text: str, expected: set[str]) -> None:
    assert rules(text) == expected


def test_a_line_that_is_not_analysed_is_named_with_the_reason() -> None:
    (found,) = lint_shell("#!/bin/sh\n\n\n\n\n\nfio --name=x $(cat options)\n")
    assert (found.rule_id, found.subject) == ("not-analysed", "line 7")
    assert "fio line at line 7 is not analysed: it contains $(…)" in found.observed
    assert found.is_note


def test_two_commands_with_jobs_of_one_name_are_two() -> None:
    found = [each.subject for each in lint_shell(f"{WRITER}\n{WRITER}\n") if each.rule_id == "buffered-writer"]
    assert found == ["line 1: [x]", "line 2: [x]"]


SILENT = [
    CREATE + "mdadm --stop /dev/md0\nmdadm --zero-superblock /dev/sda /dev/sdb /dev/sdc\n" + AGAIN,
    CREATE + "mdadm -S /dev/md0\nmdadm --zero-superblock /dev/sd{a..c}\n" + AGAIN,
    CREATE + "mdadm --stop --scan\n" + AGAIN,
    CREATE + "mdadm -Ss\nwipefs -a /dev/sda /dev/sdb\n" + AGAIN,
    CREATE + "for d in a b c; do mdadm --zero-superblock /dev/sd$d; done\n" + AGAIN,
    CREATE + 'mdadm --stop "$MD"\n' + AGAIN,
    CREATE + "mdadm /dev/md0 --fail /dev/sda --remove /dev/sda\nmdadm /dev/md0 -f /dev/sdb -r /dev/sdb\n" + AGAIN,
    CREATE + "mdadm --manage /dev/md0 --remove failed\n" + AGAIN,
    CREATE + CREATE,
    "if [ $1 = 5 ]; then\n" + CREATE + "else\n" + AGAIN + "fi",
    "mk() {\n" + CREATE + "}\nmk\n" + AGAIN,
    "for l in 0 5 6; do\n mdadm -C /dev/md0 -l $l -n 4 /dev/sd[a-d]\n mdadm -S /dev/md0\ndone",
    "for l in 0 1; do mdadm --create /dev/md$l -l $l -n 2 /dev/sda /dev/sdb; mdadm --stop /dev/md$l; done",
    "mdadm -C /dev/md0 -l5 -n4 /dev/sd[b-e]1\nmdadm /dev/md0 --fail /dev/sdc1\nmdadm /dev/md0 --remove /dev/sdc1",
    "mdadm -C /dev/md0 -l5 -n4 /dev/sd{b..e}\nmdadm /dev/md0 --fail /dev/sdc",
    "mdadm -C /dev/md0 -l5 -n4 /dev/sd?1\nmdadm /dev/md0 --fail /dev/sdc1",
    "mdadm --create /dev/md0 --level=5 --raid-devices=4 /dev/sda /dev/sdb /dev/sdc missing\n"
    "mdadm /dev/md0 --add /dev/sdd\nmdadm /dev/md0 --fail /dev/sdd",
    "mdadm --create /dev/md0 -l1 -n2 $DISKS\nmdadm /dev/md0 --fail /dev/sdd",
    'mdadm --create /dev/md0 -l1 -n2 "$A" "$B"\nmdadm /dev/md0 --fail /dev/sdd',
    "mdadm --assemble /dev/md0 /dev/sda /dev/sdb\nmdadm /dev/md0 --fail /dev/sda",
    "mdadm --assemble --scan\nmdadm /dev/md0 --fail /dev/sda --remove /dev/sda",
    CREATE + "mdadm --grow /dev/md0 --raid-devices=4 --add /dev/sdd\nmdadm /dev/md0 --fail /dev/sdd",
    CREATE + "mdadm /dev/md0 --replace /dev/sda --with /dev/sdd",
    CREATE + "mdadm /dev/md/0 --fail /dev/sda\nmdadm md0 --fail sdb",
    CREATE + "mdadm /dev/md0 --fail detached --remove detached",
    CREATE + "mdadm --fail /dev/md0 /dev/disk/by-id/ata-x",
    CREATE
    + "mdadm --detail /dev/md0; mdadm -E /dev/sda; mdadm -D --scan >> /etc/mdadm.conf; mdadm --monitor --scan -1",
    CREATE + "mdadm --wait /dev/md0; mdadm -Q /dev/md0; mdadm --grow /dev/md0 --bitmap=internal -z max",
    CREATE + "mdadm --readonly /dev/md0; mdadm -w /dev/md0; mdadm --run /dev/md0; mdadm -R /dev/md0",
    "yes | mdadm --create --verbose /dev/md0 --level=raid6 -n 4 -x1 -c 64 -e1.2 -N data /dev/sd{a,b,c,d,e} --run",
    "mdadm -CR /dev/md0 -l5 -n3 --write-journal /dev/sdz /dev/sda /dev/sdb /dev/sdc\nmdadm --fail /dev/md0 /dev/sdb",
    "mdadm --creat /dev/md0 --lev=1 --raid-d=2 /dev/sda /dev/sdb",
    "dd if=/dev/zero of=/dev/sda bs=1M count=10\ndd if=/dev/zero of=/dev/sdb bs=1M count=10\n" + AGAIN,
    "L=$(losetup -f --show a.img)\nmdadm -C /dev/md0 -l1 -n2 $L /dev/loop9",
]


@pytest.mark.parametrize("text", SILENT)
def test_valid_mdadm_commands_cause_no_findings(text: str) -> None:
    assert rules(text) - {"not-analysed"} == set()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (CREATE + AGAIN, {"member-reused"}),
        (CREATE + "mdadm --stop /dev/md5\n" + AGAIN, {"member-reused"}),
        (CREATE + "mdadm /dev/md0 --add /dev/sdd\nmdadm /dev/md1 --add /dev/sdd\n", set()),
        (CREATE + "mdadm --fail /dev/md0 /dev/sdx", {"not-a-member"}),
        (CREATE + "mdadm /dev/md0 --remove=/dev/sdx", {"not-a-member"}),
        ("mdadm -C /dev/md0 -l5 -n4 /dev/sd[b-e]1\nmdadm /dev/md0 --fail /dev/sdz1", {"not-a-member"}),
        ("mdadm -C /dev/md0 -l5 -n4 /dev/sd{b..e}\nmdadm /dev/md0 -f /dev/sda", {"not-a-member"}),
        ("mdadm -C /dev/md0 -l 6 -n4 --assume-clean /dev/sd[b-e]1", {"parity-unverified"}),
        ("mdadm -C /dev/md0 --frobnicate /dev/sda", {"not-analysed"}),
        ("mdadm $ARGS", {"not-analysed"}),
        ("ssh host mdadm --stop /dev/md0", {"not-analysed"}),
    ],
)
def test_wrong_mdadm_commands_are_reported(text: str, expected: set[str]) -> None:
    assert rules(text) == expected


RAID5 = "mdadm --create /dev/md0 --level=5 --raid-devices=3 /dev/sda /dev/sdb /dev/sdc\n"
READ = "fio --name=r --filename=/dev/md0 --rw=randread --direct=1 --time_based --runtime=60\n"
FILL = "fio --name=fill --filename=/dev/md0 --rw=write --bs=1M --direct=1 --verify=crc32c\n"
MOUNTED = "mkfs.ext4 /dev/md0\nmount {} /mnt/md\n"
ON_FILES = "fio --name=r --directory=/mnt/md --size=1G --rw=randread --direct=1 --time_based --runtime=60\n"


@pytest.mark.parametrize(
    "text",
    [
        RAID5 + READ,
        RAID5 + "cat /proc/mdstat\nsleep 5\n" + READ,
        RAID5 + FILL + READ,
        RAID5 + MOUNTED.format("/dev/md0") + ON_FILES,
        RAID5 + MOUNTED.format("-o noatime /dev/md0") + ON_FILES,
        RAID5 + "mdadm --wait /dev/md1\n" + READ,
        RAID5 + "mdadm --wait /dev/md0\nmdadm --stop /dev/md0\n" + RAID5 + READ,
        "for l in 0 1; do\n mdadm -C /dev/md$l -l$l -n2 /dev/sd{a,b}$l\n" + READ.replace("md0", "md$l") + "done",
        RAID5 + "cat > j.fio <<E\n[r]\nfilename=/dev/md0\ntime_based\nruntime=9\nE\nfio j.fio\n",
        RAID5.replace("/dev/md0", "/dev/md/0") + READ.replace("/dev/md0", "/dev/md/0"),
    ],
)
def test_a_load_during_the_first_resync_is_named(text: str) -> None:
    assert rules(text) == {"resync-running"}


@pytest.mark.parametrize(
    "text",
    [
        RAID5 + "mdadm --wait /dev/md0\n" + READ,
        RAID5 + "mdadm -W /dev/md/0\n" + READ,
        RAID5 + "mdadm --wait /dev/md0 || true\n" + READ,
        RAID5 + "while grep -q resync /proc/mdstat; do sleep 1; done\n" + READ,
        RAID5 + 'until [ "$(cat /sys/block/md0/md/sync_action)" = idle ]; do sleep 1; done\n' + READ,
        RAID5 + "while mdadm --detail /dev/md0 | grep -q Resync; do sleep 10; done\n" + READ,
        RAID5 + "sleep 20m\n" + READ,
        RAID5 + 'sleep "$RESYNC"\n' + READ,
        RAID5 + 'read -p "Enter when mdstat is quiet"\n' + READ,
        RAID5 + "echo idle > /sys/block/md0/md/sync_action\n" + READ,
        "wait_for() { while grep -q re /proc/mdstat; do sleep 1; done; }\n" + RAID5 + "wait_for\n" + READ,
        RAID5 + "./wait-for-md.sh\n" + READ,
        RAID5 + FILL + "mdadm --wait /dev/md0\n" + READ,
        RAID5.replace("=5", "=0") + READ,
        RAID5.replace("=5", "=1").replace("-devices=3", "-devices=1 --force") + READ,
        RAID5.replace("=5", "=10 --assume-clean") + READ,
        RAID5.replace("/dev/sdc", "missing") + READ,
        RAID5 + READ.replace("/dev/md0", "/dev/nvme0n1"),
        RAID5 + "fio --version\n",
        "if [ $1 ]; then\n" + RAID5 + "fi\n" + READ,
        RAID5 + "mdadm --stop /dev/md0\nmdadm --assemble /dev/md0 /dev/sda /dev/sdb /dev/sdc\n" + READ,
    ],
)
def test_a_load_that_waits_or_need_not_wait_causes_no_finding(text: str) -> None:
    assert rules(text) == set()


@pytest.mark.parametrize(
    ("devices", "expected"),
    [
        ("/dev/sda /dev/sdb /dev/sda", {"member-twice"}),
        ("/dev/sd{a,b} /dev/sdb", {"member-twice"}),
        ("$D $D", {"member-twice"}),
        ("/dev/sda missing missing", set()),
        ("/dev/sda /dev/sda1 /dev/sdb", set()),
        ("/dev/sd? /dev/sda", set()),
        ('"$A" "$A"', set()),
    ],
)
def test_a_disk_that_is_named_twice(devices: str, expected: set[str]) -> None:
    assert rules(f"D=/dev/sdz\nmdadm --create /dev/md0 --level=5 --raid-devices=3 {devices}\n") == expected


@pytest.mark.parametrize(
    ("line", "mode", "array", "devices"),
    [
        ("--create /dev/md0 -l5 -n 3 /dev/a /dev/b /dev/c", "create", "/dev/md0", "/dev/a /dev/b /dev/c"),
        ("-C -l 5 -n3 /dev/md0 /dev/a missing /dev/c", "create", "/dev/md0", "/dev/a /dev/c"),
        ("-A /dev/md0 -c /etc/mdadm.conf /dev/a", "assemble", "/dev/md0", "/dev/a"),
        ("/dev/md0 -a /dev/a", "manage", "/dev/md0", "/dev/a"),
        ("-a /dev/md0 /dev/a", "manage", "/dev/md0", "/dev/a"),
        ("-G /dev/md0 -n4 -a /dev/d", "grow", "/dev/md0", "/dev/d"),
        ("-B /dev/md0 -l0 -n2 -c64 /dev/a /dev/b", "build", "/dev/md0", "/dev/a /dev/b"),
        ("--zero-superblock --force /dev/a /dev/b", "misc", "/dev/a", "/dev/b"),
        ("-Ss", "misc", "", ""),
        ("-I /dev/a", "incremental", "/dev/a", ""),
        ("-F --scan -m root@localhost -d 60", "monitor", "", ""),
        ("--misc --detail /dev/md0", "misc", "/dev/md0", ""),
    ],
)
def test_every_mode_of_mdadm(line: str, mode: str, array: str, devices: str) -> None:
    call = parse_mdadm([Word(word) for word in line.split()])
    assert (call.problem, call.mode, call.array) == ("", mode, array)
    assert [word.text for word in call.devices] == devices.split()


def test_words() -> None:
    assert words_of("a 'b c' \"d $X e\" f\\ g") == [("a", "b c", "d $X e", "f g")]
    assert words_of("X='1 2'; a $X \"$X\" ${X:-3}") == [("a", "1", "2", "1 2", "1", "2")]
    assert words_of("a{b,c{d,e}}f {1..3} {01..03} '{x,y}' {z}") == [
        ("abf", "acdf", "acef", "1", "2", "3", "01", "02", "03", "{x,y}", "{z}"),
    ]
    assert words_of("a 2>&1 >x <y b") == [("a", "b")]
    assert words_of("for i in 1 2; do for j in x y; do a $i$j; done; done") == [
        *(("a", "1x"), ("a", "1y"), ("a", "2x"), ("a", "2y")),
    ]


def test_a_loop_without_bound_is_refused() -> None:
    text = "for a in {1..99}; do for b in {1..99}; do x; done; done"
    with pytest.raises(SpecError, match="too many iterations to follow"):
        read_script(text)
    loops = "for a in {1..99}; do " * 6 + "X=1; " + "done; " * 6
    with pytest.raises(SpecError, match="too many iterations to follow"):
        read_script(loops)
    with pytest.raises(SpecError, match="too many words"):
        read_script("a {1..99}{1..99}{1..99}")


@pytest.mark.parametrize("text", ["echo 'a", 'echo "a', "echo $(a", "echo ${a", "echo `a", 'x; echo "$(a \'b)"'])
def test_a_quote_or_bracket_that_does_not_end_is_named(text: str) -> None:
    with pytest.raises(SpecError, match="echo") as caught:
        read_script(f"true\n{text}")
    assert caught.value.hint


@pytest.mark.parametrize(
    "text",
    [
        "case x in " + "a " * 16_000,
        "case x in " + "a) b ;; " * 8_000 + "esac",
        "cat <<E\n" + "x\n" * 30_000,
        "a " * 30_000,
        "if a; then " * 5_000,
        "{ " * 15_000,
        "$(" * 20 + "a" + ")" * 20,
        "a{b,c}" * 10_000,
        "fio " + "--name=x " * 6_000,
    ],
    ids=lambda text: text[:12].strip(),
)
def test_no_script_takes_long(text: str) -> None:
    """Work grows with the length: where it grew with its square, these would take minutes."""
    with suppress(SpecError):
        list(lint_shell(text))


def test_a_case_inside_a_case_keeps_its_commands() -> None:
    text = "case $1 in\na|b) case $2 in c) x y ;; *) z ;; esac ;;\n(d) w ;;\nesac\nv\n"
    assert words_of(text) == [("x", "y"), ("z",), ("w",), ("v",)]
