"""A full disk under the log file loses log lines and nothing else; uses Linux's /dev/full."""

import errno
import io
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, strategies as st
from typing_extensions import override

from oracle.telemetry.logging_setup import LogStream
from tests.support.cli.daemon import PATIENCE_SECONDS
from tests.support.examples import examples
from tests.support.ingest.fake_chain import FakeChain
from tests.support.ingest.proofs import Site

FULL = Path("/dev/full")


@pytest.mark.skipif(not FULL.exists(), reason="Linux alone has a device that is always full")
def test_full_log_disk_does_not_stop_the_run(
    fake_chain: FakeChain, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    site = Site(fake_chain, tmp_path, capsys)
    path = site.configured(0)
    command = [sys.executable, "-m", "oracle", "run", "--once", "--config", str(path)]
    with FULL.open("w") as full:
        done = subprocess.run(command, stderr=full, timeout=PATIENCE_SECONDS, check=False)

    assert done.returncode == 0
    assert site.cursor() == fake_chain.head.number


class FillingDisk(io.StringIO):
    """A file whose writes fail at some positions, as on a full disk."""

    def __init__(self, refused: frozenset[int]) -> None:
        super().__init__()
        self._refused = refused
        self._calls = 0

    @override
    def write(self, text: str) -> int:
        self._calls += 1
        if self._calls in self._refused:
            raise OSError(errno.ENOSPC, "No space left on device")
        return super().write(text)


@given(refused=st.frozensets(st.integers(1, 30)), lines=st.integers(1, 20))
@examples(100)
def test_log_line_is_either_written_or_counted_as_lost(refused: frozenset[int], lines: int):
    disk = FillingDisk(refused)
    stream = LogStream(disk)
    for number in range(lines):
        stream.write(f"line {number}\n")

    written = disk.getvalue().splitlines()
    kept_lines = [line for line in written if line.startswith("line ")]
    lost = [int(line.split()[0]) for line in written if "were lost" in line]
    assert kept_lines == sorted(set(kept_lines), key=kept_lines.index)
    assert len(kept_lines) + sum(lost) + stream.lost_line_count == lines


def test_broken_log_pipe_raises_broken_pipe_error():
    class Closed(io.StringIO):
        @override
        def write(self, text: str) -> int:
            raise BrokenPipeError(errno.EPIPE, "Broken pipe")

    with pytest.raises(BrokenPipeError):
        LogStream(Closed()).write("line\n")
