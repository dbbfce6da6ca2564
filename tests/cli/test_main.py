"""Whatever the system refuses, a command says it in one line, exits with 1 and leaves no litter."""

import errno
import os
import signal
import subprocess
import sys
import time

import pytest

from stamo.cli import main as cli
from stamo.errors import StamoError

NO_ROOM = """
import resource, signal, sys
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))  # no file may grow, as on a full disk
from stamo.cli.main import main
main()
"""


def run(*arguments, code="from stamo.cli.main import main; main()", **options):
    return subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        stderr=subprocess.PIPE,
        text=True,
        timeout=60,
        check=False,
        **options,
    )


def is_one_line(message):
    return message.startswith("stamo: ") and message.count("\n") == 1


def test_a_full_disk_is_one_line(tmp_path):
    """A command that cannot write says so and leaves nothing behind."""
    done = run("world", tmp_path / "out", "--articles", 300, "--documents", 9, code=NO_ROOM)
    assert (done.returncode, is_one_line(done.stderr)) == (1, True), done.stderr
    assert "disk is full" in done.stderr
    assert list((tmp_path / "out").iterdir()) == []


def test_output_that_cannot_be_written_is_one_line():
    """Output into a full device is no success, and no trace either."""
    with open("/dev/full", "w") as full:  # noqa: PTH123
        done = run("--help", stdout=full)
    assert (done.returncode, is_one_line(done.stderr)) == (1, True), done.stderr


@pytest.mark.parametrize(
    ("error", "match"),
    [
        (OSError(errno.ENOSPC, "No space left on device", "/data/x"), "disk is full at '/data/x'"),
        (OSError(errno.EROFS, "Read-only file system", "/data/x"), "read-only"),
        (PermissionError(errno.EACCES, "Permission denied", "/data/x"), "does not permit"),
        (NotADirectoryError(errno.ENOTDIR, "Not a directory", b"/data/x"), "Not a directory"),
        (OSError("odd"), "odd"),
        (MemoryError(), "memory ran out"),
        (StamoError("Our own sentence."), "Our own sentence."),
    ],
)
def test_every_error_of_the_system_is_a_sentence(monkeypatch, capsys, error, match):
    """One place turns them all into a line and exit code 1."""

    def fail():
        raise error

    monkeypatch.setattr(cli, "create_app", lambda: fail)
    monkeypatch.setattr(signal, "signal", lambda *args: None)
    with pytest.raises(SystemExit) as ended:
        cli.main()
    message = capsys.readouterr().err
    assert ended.value.code == 1
    assert is_one_line(message)
    assert match in message


def test_out_is_tried_before_long_work(tmp_path):
    """An impossible --out is told before the knowledge base is even opened."""
    (tmp_path / "file").write_text("x")
    for out in (tmp_path / "file" / "model", tmp_path / "no" / "model", tmp_path):
        done = run("train", tmp_path / "kb", "--out", out)
        assert (done.returncode, is_one_line(done.stderr)) == (1, True), done.stderr
        assert "system refused" in done.stderr


def test_a_port_that_is_none_is_one_line(tmp_path):
    """A port above 65535 is refused in a sentence."""
    done = run("serve", tmp_path / "kb", tmp_path / "model", "--port", 99999)
    assert (done.returncode, is_one_line(done.stderr)) == (1, True), done.stderr
    assert "0 to 65535" in done.stderr


def test_sigterm_is_ctrl_c(tmp_path):
    """A command that is asked to end removes what is half-written."""
    code = "from stamo.cli.main import main; main()"
    command = [sys.executable, "-c", code, "world", str(tmp_path), "--articles", "9000"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        deadline = time.monotonic() + 30
        while not list(tmp_path.glob(".world-*")) and time.monotonic() < deadline:
            time.sleep(0.02)
        os.kill(process.pid, signal.SIGTERM)
        _, message = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "stopped on request" in message
    assert list(tmp_path.iterdir()) == []
