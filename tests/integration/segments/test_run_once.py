"""`run --once` on a long history: workers store the same as a single process,
also after `kill -9`.
"""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from oracle.chain.segments.segment_queue import MIN_WORKER_BLOCKS
from oracle.cli.main import run
from tests.integration.segments.conftest import at_request, outcomes
from tests.support.cli.local_network import write_config
from tests.support.examples import examples
from tests.support.ingest.daemons import build_daemon_settings
from tests.support.ingest.dumping import dump_database_rows
from tests.support.ingest.fake_chain import FakeChain

# Requests during the history: a writer dies at one of them, or at one of its workers'.
REQUESTED_METHODS = ("eth_getBlockReceipts", "eth_getLogs", "eth_getBlockByNumber")


@pytest.fixture(scope="module")
def long_chain() -> Iterator[FakeChain]:
    with ExitStack() as until_the_end:
        chain = FakeChain(until_the_end)
        chain.serve()
        chain.live(300)
        chain.mine_empty(MIN_WORKER_BLOCKS)
        chain.live(60)
        yield chain


def config_in(folder: Path, chain: FakeChain, **history: object) -> Path:
    folder.mkdir()
    return write_config(
        build_daemon_settings(chain, folder) | {"history": history}, folder / "config.toml"
    )


def run_once(config: Path) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-m", "oracle", "run", "--once", "--config", str(config)]
    with (config.parent / "log").open("ab") as log:
        return subprocess.Popen(command, stderr=log)


def has_ordered(config: Path) -> bool:
    return "segment_workers_started" in (config.parent / "log").read_text("utf-8")


def dump_database(config: Path) -> list[str]:
    return dump_database_rows(f"sqlite:///{config.parent / 'oracle.sqlite'}")


@pytest.fixture(scope="module")
def inline(long_chain: FakeChain, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    config = config_in(tmp_path_factory.mktemp("a") / "inline", long_chain, executor="inline")
    with run_once(config) as process:
        assert process.wait() == 0
    return dump_database(config)


def test_indexing_by_workers_stores_the_same_rows_as_inline(
    long_chain: FakeChain, inline: list[str], tmp_path: Path
):
    config = config_in(tmp_path / "workers", long_chain, executor="processes", workers=2)

    with run_once(config) as process:
        assert process.wait() == 0

    assert dump_database(config) == inline
    assert has_ordered(config)


@pytest.mark.nightly
@settings(examples(3), deadline=None)
@given(
    kills=st.lists(
        st.tuples(st.sampled_from(REQUESTED_METHODS), st.integers(5, 150)), min_size=1, max_size=2
    )
)
def test_killed_writer_resumes_with_the_same_result(
    long_chain: FakeChain,
    inline: list[str],
    tmp_path_factory: pytest.TempPathFactory,
    kills: list[tuple[str, int]],
):
    """The writer's process is killed; its workers end with it, and staged segments remain."""
    folder = tmp_path_factory.mktemp("a") / "killed"
    config = config_in(folder, long_chain, executor="processes", workers=2)
    for method, nth in kills:
        process = run_once(config)
        long_chain.provider.faults.append(at_request(nth, method, process.kill))
        with process:
            process.wait()
        long_chain.provider.faults.clear()

    with run_once(config) as again:
        assert again.wait() == 0

    assert dump_database(config) == inline
    assert has_ordered(config)


def test_verification_by_workers_equals_inline_verification(
    long_chain: FakeChain, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    config = config_in(tmp_path / "verified", long_chain, executor="inline")
    with run_once(config) as process:
        assert process.wait() == 0
    blocks = ("--from", "0", "--to", str(MIN_WORKER_BLOCKS + 200))
    command = ["resync", "verify", *blocks, "--json", "--config", str(config)]
    answers = []
    before = outcomes("taken")
    for more in ([], ["--workers", "2"]):
        capsys.readouterr()
        assert run([*command, *more]) == 0
        answers.append(capsys.readouterr().out)

    assert answers[0] == answers[1]
    assert outcomes("taken") > before
