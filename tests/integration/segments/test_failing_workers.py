"""A worker that dies, hangs or answers something else costs its range, and no stored byte."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from oracle.chain.segments.order import SegmentOrder, WriterState
from oracle.chain.segments.process_pool import WorkerDiedError
from oracle.chain.segments.segment import decode_answer
from oracle.errors import FatalError
from tests.integration.segments.conftest import OpenPrepared, at_question, outcomes
from tests.integration.segments.failing_workers import Change, DyingAt, Hanging, Lying
from tests.support.ingest.a_chain import AChain
from tests.support.ingest.dumping import dump
from tests.support.ingest.indexer import Indexer


def kill_one(indexer: Indexer) -> None:
    pids = indexer.pool.get_pids()
    if pids:
        os.kill(pids[0], signal.SIGKILL)


@pytest.mark.parametrize("nth", [2, 17, 60, 131])
def test_a_worker_that_is_killed_costs_its_range(
    a_chain: AChain, expected: list[str], open_prepared: OpenPrepared, nth: int
):
    indexer = open_prepared(2)
    fault = at_question(nth, "eth_getBlockReceipts", lambda: kill_one(indexer))
    a_chain.provider.faults.append(fault)

    indexer.index()

    assert dump(indexer.url) == expected


def flipped(honest: bytes, _before: bytes) -> bytes:
    return honest[:50] + bytes([honest[50] ^ 1]) + honest[51:]


def cut(honest: bytes, _before: bytes) -> bytes:
    return honest[: len(honest) // 2]


def of_another(honest: bytes, before: bytes) -> bytes:
    return before or honest[:-1]


@pytest.mark.parametrize("lie", [flipped, cut, of_another])
def test_an_answer_that_is_none_costs_its_range(
    expected: list[str], open_prepared: OpenPrepared, lie: Change
):
    indexer, before = open_prepared(1), outcomes("lost")
    lying = Lying(indexer.pool, lie, times=1)
    indexer.source.use_workers(lying, min_worker_blocks=1)

    indexer.index()

    assert dump(indexer.url) == expected
    assert outcomes("lost") > before
    assert lying.given_up


def test_a_worker_that_hangs_costs_its_range(expected: list[str], open_prepared: OpenPrepared):
    indexer = open_prepared(1)
    hanging = Hanging(indexer.pool, cut, times=1)
    indexer.source.use_workers(hanging, min_worker_blocks=1)

    indexer.index()

    assert dump(indexer.url) == expected
    assert hanging.given_up


def test_a_worker_that_is_given_up_is_ended_and_replaced(open_prepared: OpenPrepared):
    indexer = open_prepared(1)
    indexer.index()
    pool, (pid,) = indexer.pool, indexer.pool.get_pids()
    name = indexer.source.endpoint_names()[0]
    order = SegmentOrder(pool.plan.id, 1, 0, 9, name, WriterState({}))
    os.kill(pid, signal.SIGSTOP)
    future = pool.submit(order)
    while not future.running():
        pass

    while not future.done():
        pool.abort_order(future)

    with pytest.raises(WorkerDiedError):
        future.result()
    assert decode_answer(pool.submit(order).result(), order).number == 1
    assert pool.get_pids() != [pid]


def test_a_block_that_workers_die_of_is_named_and_all_before_it_is_stored(
    open_prepared: OpenPrepared,
):
    indexer = open_prepared(1)
    dying = DyingAt(indexer.pool, cut, times=0, block=47)
    indexer.source.use_workers(dying, min_worker_blocks=1)

    with pytest.raises(FatalError, match="block 47"):
        indexer.index()

    assert indexer.cursor[0] == 46


def test_without_workers_the_writer_goes_on_alone(
    expected: list[str], open_prepared: OpenPrepared, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    indexer = open_prepared(2)

    indexer.index()

    assert dump(indexer.url) == expected


def test_a_worker_ends_when_nobody_can_order_any_more():
    command = [sys.executable, "-P", "-m", "oracle.chain.segments.worker"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as worker:
        assert worker.stdin is not None
        worker.stdin.close()

        assert worker.wait(60) == 0


# Under these a key may lie: a setting's, one that `keys.signer_env` names, those of libraries.
KEY_VARIABLES = (
    *("QOS_ORACLE_KEYS__SIGNER_PASSWORD", "MY_SIGNING_KEY", "AWS_SECRET_ACCESS_KEY"),
    *("AWS_SESSION_TOKEN", "PGPASSWORD", "VAULT_TOKEN", "key"),
)


def test_a_worker_is_given_none_of_our_settings(
    open_prepared: OpenPrepared, monkeypatch: pytest.MonkeyPatch
):
    for name in KEY_VARIABLES:
        monkeypatch.setenv(name, f"hidden-{name}")
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    indexer = open_prepared(1)
    indexer.index()
    (pid,) = indexer.pool.get_pids()

    environment, command = (
        Path(f"/proc/{pid}/{name}").read_bytes() for name in ("environ", "cmdline")
    )

    assert b"PATH=" in environment
    assert b"HTTPS_PROXY=" in environment
    assert b"hidden" not in environment + command
    assert indexer.urls[0].encode() not in environment + command
