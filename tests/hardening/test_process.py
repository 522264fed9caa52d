"""The process: its streams, its arguments, signals, its size, and the server."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

import pytest

from tests.hardening.workbench import MOST_SECONDS, RAIDLAB, Bench, Done, expect

pytestmark = [pytest.mark.wide, pytest.mark.slow]

NOT_UTF8 = b"na\xff\xfeme"


def test_an_argument_that_is_not_utf_8_is_refused_in_a_sentence_as_json_too(bench: Bench) -> None:
    for words in (["results", "show", NOT_UTF8], ["--on", NOT_UTF8, "disks"], ["lint", b"x\xff.toml"], [NOT_UTF8]):
        bench.run(*words).was_refused(because="UTF-8")
        done = bench.run("--json", *words).was_refused(because="UTF-8")
        expect(json.loads(done.out)["error"]["exit_status"] == 2, str(done))


def test_a_closed_standard_input_or_error_is_as_good_as_dev_null(bench: Bench) -> None:
    for closes in ((0,), (2,), (0, 2)):
        bench.run("workloads", closes=closes).worked()
        bench.run("--json", "results", closes=closes).worked()
    bench.run("disks", "add", "/dev/sdx", "--kind", "physical", closes=(0,)).was_refused(because="typed only once")
    nothing = bench.run("nonsense", closes=(1, 2))
    expect(nothing.status == 2, str(nothing))


def test_a_closed_standard_output_ends_only_commands_that_print_as_in_coreutils(bench: Bench) -> None:
    for words in (["--version"], ["--help"], ["workloads"], ["--json", "results"], ["lesson", "list"]):
        for closes in ((1,), (0, 1)):
            done = bench.run(*words, closes=closes).was_refused(because="cannot write to standard output")
            expect(done.status == 1 and "it is closed" in done.err, str(done))
        expect(bench.run(*words, closes=(0, 1, 2)).status == 1, str(words))
    # Its whole output goes to standard error.
    bench.run("lint", "antioquia", closes=(1,)).worked()


@pytest.mark.kernel
def test_a_machine_starts_whichever_standard_streams_are_closed(bench: Bench) -> None:
    for closes in ((0,), (0, 2), (2,)):
        done = bench.run("array", "show", closes=closes, on_machine=True)
        expect(done.status == 0, str(done))
    for output_too in ((1,), (0, 1), (0, 1, 2)):
        done = bench.run("array", "show", closes=output_too, on_machine=True)
        expect(done.status == 0, str(done))
        # A command that prints.
        done = bench.run("disks", closes=output_too, on_machine=True)
        expect(done.status == 1, str(done))


def test_an_output_that_takes_no_more_ends_the_command_with_a_sentence(bench: Bench) -> None:
    for words in (["--version"], ["--help"], ["workloads"], ["--json", "workloads"], ["completion", "bash"], ["run"]):
        done = bench.run(*words, output="/dev/full").was_refused(because="No space left")
        expect(done.status == 1, str(done))
    gone = subprocess.run(
        ["sh", "-c", '"$0" --json workloads | true; "$0" --help 2>&1 | head -c 1 >/dev/null', str(RAIDLAB)],
        env=bench.environment(),
        capture_output=True,
        text=True,
        timeout=MOST_SECONDS,
        check=False,
    )
    expect(gone.stderr == "", f"a reader that left early: {gone.stderr!r}")


def test_help_is_printed_whatever_columns_and_lines_say(bench: Bench) -> None:
    for size in ("0", "1", "7", "-5", "99999999", "9" * 5000, "x", "", "1e3", "٣"):
        done = bench.run("array", "create", "--help", environment={"COLUMNS": size, "LINES": size}).worked()
        expect("--level" in done.out and len(done.out) < 100_000, f"COLUMNS={size[:20]}: {len(done.out)} characters")


def test_serve_looks_at_its_port_and_target_before_it_listens(bench: Bench) -> None:
    for port in ("99999", "65536", "-1", "9" * 5000, "", "8642.0", "٨٠"):
        bench.run("serve", "--port", port).was_refused(because="--port")
    done = bench.run("--on", "bogus:", "serve", "--port", "0").was_refused(because="bogus")
    expect("http" not in done.out, str(done))


def test_ctrl_c_and_sigterm_at_any_moment_after_the_start_end_a_command_without_a_traceback(bench: Bench) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        for milliseconds in (*range(5, 60, 5), *range(60, 300, 30)):
            process = bench.start("--json", "run", "--plan", "louwrentius-quick")
            time.sleep(milliseconds / 1000)
            process.send_signal(number)
            out, err = process.communicate(timeout=MOST_SECONDS)
            done = Done((f"signal {number} after {milliseconds} ms",), process.returncode, out.decode(), err.decode())
            # The shell script that starts the command is killed by the signal, without a message.
            is_before_start = done.status == -number and not done.said
            expect(is_before_start or done.status in (0, 128 + number), str(done))
            expect("Traceback" not in done.err and "Error" not in done.err, str(done))


@pytest.mark.kernel
def test_a_command_on_the_machine_begins_in_a_folder_that_its_user_may_enter(bench: Bench) -> None:
    done = bench.run("exec", "--", "pwd", on_machine=True).worked()
    expect(done.out.startswith("/") and "denied" not in done.said, str(done))


@contextmanager
def served(bench: Bench) -> Iterator[tuple[subprocess.Popen[bytes], str, int]]:
    process = bench.start("serve", "--port", "0")
    assert process.stdout is not None
    try:
        address = process.stdout.readline().decode().strip()
        expect(address.startswith("http://127.0.0.1:"), f"no address: {address!r}")
        yield process, address, urlsplit(address).port or 0
    finally:
        process.kill()
        process.communicate()


def test_nothing_that_is_sent_to_serve_makes_it_print_a_traceback_grow_or_stop(bench: Bench) -> None:
    with served(bench) as (process, address, port):
        path = urlsplit(address).path
        requests = (
            b"GET /" + b"a" * 10**6 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
            b"GET / HTTP/1.1\r\n" + b"".join(b"X-%d: y\r\n" % number for number in range(20_000)) + b"\r\n",
            b"GET / HTTP/1.1\r\nX: " + b"y" * 10**6 + b"\r\n\r\n",
            b"\x16\x03\x01" + bytes(range(256)) * 100,
            f"GET {path}ws?width=x&height=-1 HTTP/1.1\r\nHost: x\r\n\r\n".encode(),
            f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n\r\n".encode() + b"z" * 10**6,
            f"GET {path}static/%2e%2e/%2e%2e/server.py HTTP/1.1\r\nHost: x\r\n\r\n".encode(),
        )
        for request in requests:
            with socket.create_connection(("127.0.0.1", port), timeout=5) as sender:
                try:
                    sender.sendall(request)
                    sender.recv(1000)
                except OSError:
                    # The server may close the connection.
                    continue
        with socket.create_connection(("127.0.0.1", port), timeout=MOST_SECONDS) as sender:
            sender.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
            expect(sender.recv(100).startswith(b"HTTP/1.1 200"), "it serves no more")
        with open(f"/proc/{process.pid}/status", encoding="ascii") as status:
            kib = int(re.findall(r"VmHWM:\s+(\d+) kB", status.read())[0])
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=MOST_SECONDS)
    expect(b"Traceback" not in err and b"Error" not in err, err.decode()[-600:])
    expect(kib < 300_000, f"{kib} KiB of memory")
