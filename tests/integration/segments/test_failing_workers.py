"""A worker that dies, hangs or returns wrong data costs its range, and changes no stored byte."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from oracle.chain.segments.process_pool import WorkerDiedError
from oracle.chain.segments.segment import decode_answer
from oracle.chain.segments.segment_request import SegmentRequest, WriterState
from oracle.errors import FatalError
from tests.integration.segments.conftest import OpenPrepared, at_request, outcomes
from tests.integration.segments.failing_workers import (
    Change,
    DyingAt,
    Hanging,
    Lying,
    get_worker_pids,
)
from tests.support.ingest.dumping import dump_database_rows
from tests.support.ingest.fake_chain import FakeChain
from tests.support.ingest.indexer import Indexer


def kill_one_worker(indexer: Indexer) -> None:
    pids = get_worker_pids(indexer.pool)
    if pids:
        os.kill(pids[0], signal.SIGKILL)


@pytest.mark.parametrize("nth", [2, 17, 60, 131])
def test_killed_worker_loses_only_its_range(
    fake_chain: FakeChain, expected: list[str], open_prepared: OpenPrepared, nth: int
):
    indexer = open_prepared(2)
    fault = at_request(nth, "eth_getBlockReceipts", lambda: kill_one_worker(indexer))
    fake_chain.provider.faults.append(fault)

    indexer.index()

    assert dump_database_rows(indexer.url) == expected


def flip_bit(honest: bytes, _before: bytes) -> bytes:
    return honest[:50] + bytes([honest[50] ^ 1]) + honest[51:]


def truncate_answer(honest: bytes, _before: bytes) -> bytes:
    return honest[: len(honest) // 2]


def repeat_previous_answer(honest: bytes, before: bytes) -> bytes:
    return before or honest[:-1]


@pytest.mark.parametrize("lie", [flip_bit, truncate_answer, repeat_previous_answer])
def test_invalid_worker_response_loses_only_its_range(
    expected: list[str], open_prepared: OpenPrepared, lie: Change
):
    indexer = open_prepared(1)
    before = outcomes("lost")
    lying = Lying(indexer.pool, lie, times=1)
    indexer.source.use_workers(lying, min_worker_blocks=1)

    indexer.index()

    assert dump_database_rows(indexer.url) == expected
    assert outcomes("lost") > before
    assert lying.given_up


def test_hanging_worker_loses_only_its_range(expected: list[str], open_prepared: OpenPrepared):
    indexer = open_prepared(1)
    hanging = Hanging(indexer.pool, truncate_answer, times=1)
    indexer.source.use_workers(hanging, min_worker_blocks=1)

    indexer.index()

    assert dump_database_rows(indexer.url) == expected
    assert hanging.given_up


def test_abandoned_worker_is_stopped_and_replaced(open_prepared: OpenPrepared):
    indexer = open_prepared(1)
    indexer.index()
    pool = indexer.pool
    (pid,) = get_worker_pids(indexer.pool)
    name = indexer.source.list_endpoint_names()[0]
    order = SegmentRequest(pool.plan.id, 1, 0, 9, name, WriterState({}))
    os.kill(pid, signal.SIGSTOP)
    future = pool.submit(order)
    while not future.running():
        pass

    while not future.done():
        pool.abort_request(future)

    with pytest.raises(WorkerDiedError):
        future.result()
    assert decode_answer(pool.submit(order).result(), order).number == 1
    assert get_worker_pids(pool) != [pid]


def test_block_that_crashes_workers_is_reported(
    open_prepared: OpenPrepared,
):
    indexer = open_prepared(1)
    dying = DyingAt(indexer.pool, truncate_answer, times=0, block=47)
    indexer.source.use_workers(dying, min_worker_blocks=1)

    with pytest.raises(FatalError, match="block 47"):
        indexer.index()

    assert indexer.cursor[0] == 46


def test_writer_continues_alone_without_workers(
    expected: list[str], open_prepared: OpenPrepared, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    indexer = open_prepared(2)

    indexer.index()

    assert dump_database_rows(indexer.url) == expected


def test_worker_exits_when_its_input_is_closed():
    command = [sys.executable, "-P", "-m", "oracle.chain.segments.worker"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as worker:
        assert worker.stdin is not None
        worker.stdin.close()

        assert worker.wait(60) == 0


# Names under which a key may be stored: a setting, `keys.signer_env`, those of libraries.
KEY_VARIABLES = (
    *("QOS_ORACLE_KEYS__SIGNER_PASSWORD", "MY_SIGNING_KEY", "AWS_SECRET_ACCESS_KEY"),
    *("AWS_SESSION_TOKEN", "PGPASSWORD", "VAULT_TOKEN", "key"),
)


def test_worker_environment_contains_no_settings_or_keys(
    open_prepared: OpenPrepared, monkeypatch: pytest.MonkeyPatch
):
    for name in KEY_VARIABLES:
        monkeypatch.setenv(name, f"hidden-{name}")
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    indexer = open_prepared(1)
    indexer.index()
    (pid,) = get_worker_pids(indexer.pool)

    environment, command = (
        Path(f"/proc/{pid}/{name}").read_bytes() for name in ("environ", "cmdline")
    )

    assert b"PATH=" in environment
    assert b"HTTPS_PROXY=" in environment
    assert b"hidden" not in environment + command
    assert indexer.urls[0].encode() not in environment + command
