"""`run --once` over much history: workers store what inline does, also after a `kill -9`."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from oracle.chain.segments.segment_queue import LEAST_BLOCKS
from tests.integration.segments.conftest import at_question
from tests.support.cli.local_network import write
from tests.support.ingest.a_chain import AChain
from tests.support.ingest.daemons import settings
from tests.support.ingest.dumping import dump


@pytest.fixture(scope="module")
def long_chain() -> Iterator[AChain]:
    with ExitStack() as until_the_end:
        chain = AChain(until_the_end)
        chain.serve()
        chain.live(300)
        chain.quiet(LEAST_BLOCKS)
        chain.live(60)
        yield chain


def config_in(folder: Path, chain: AChain, **history: object) -> Path:
    folder.mkdir()
    return write(settings(chain, folder) | {"history": history}, folder / "config.toml")


def run_once(config: Path) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-m", "oracle", "run", "--once", "--config", str(config)]
    with (config.parent / "log").open("ab") as log:
        return subprocess.Popen(command, stderr=log)


def has_ordered(config: Path) -> bool:
    return "segment_workers_ordered" in (config.parent / "log").read_text("utf-8")


def stored(config: Path) -> list[str]:
    return dump(f"sqlite:///{config.parent / 'oracle.sqlite'}")


@pytest.fixture(scope="module")
def inline(long_chain: AChain, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    config = config_in(tmp_path_factory.mktemp("a") / "inline", long_chain, executor="inline")
    with run_once(config) as process:
        assert process.wait() == 0
    return stored(config)


def test_history_that_workers_prepare_is_stored_as_inline(
    long_chain: AChain, inline: list[str], tmp_path: Path
):
    config = config_in(tmp_path / "workers", long_chain, executor="processes", workers=2)

    with run_once(config) as process:
        assert process.wait() == 0

    assert stored(config) == inline
    assert has_ordered(config)


@pytest.mark.parametrize("nth", [30, 60, 160])
def test_a_writer_that_is_killed_goes_on_where_it_was(
    long_chain: AChain, inline: list[str], tmp_path: Path, nth: int
):
    config = config_in(tmp_path / "killed", long_chain, executor="processes", workers=2)
    process = run_once(config)
    fault = at_question(nth, "eth_getBlockReceipts", process.kill)
    long_chain.provider.faults.append(fault)
    with process:
        process.wait()
    long_chain.provider.faults.clear()
    assert process.returncode < 0
    assert has_ordered(config)

    with run_once(config) as again:
        assert again.wait() == 0

    assert stored(config) == inline
