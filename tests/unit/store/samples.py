"""Rows for tests of the store: nodes, tasks and logs with values at the limits."""

from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from oracle.domain.blocks import BlockRef, Position
from oracle.domain.events.network_events import AbortReason, TaskKind
from oracle.domain.ids import Address, GroupKey, Hash, TaskKey
from oracle.domain.logs import Call, Log
from oracle.domain.state import (
    DownloadRequest,
    Ending,
    Membership,
    Node,
    Run,
    Task,
    create_node,
    create_task,
)


def address(number: int) -> Address:
    return Address(f"0x{number:040x}")


def make_hash(number: int) -> Hash:
    return Hash(f"0x{number:064x}")


def task_key(number: int) -> TaskKey:
    return TaskKey(f"0x{number:064x}")


def group_key(number: int) -> GroupKey:
    return GroupKey(f"0x{number:064x}")


def block(number: int, branch: int = 0) -> BlockRef:
    """Block `number` of one branch; branches differ in every hash."""
    return BlockRef(
        number,
        make_hash(1000 * branch + number + 1),
        make_hash(1000 * branch + number),
        2 * number,
    )


def log(number: int, index: int = 0, branch: int = 0, **values: Any) -> Log:
    sample_log = Log(
        block=number,
        block_hash=block(number, branch).hash,
        time=2 * number,
        tx=index,
        tx_hash=make_hash(7_000_000 + 100 * number + index),
        index=index,
        address=address(5),
        topics=(make_hash(1), make_hash(2)),
        data="0x" + "ab" * index,
    )
    return replace(sample_log, **values)


def call(number: int, tx: int = 0, branch: int = 0, **values: Any) -> Call:
    sample_call = Call(
        block=number,
        block_hash=block(number, branch).hash,
        time=2 * number,
        tx=tx,
        tx_hash=make_hash(8_000_000 + 100 * number + tx),
        sender=address(6),
        to=address(7),
        value=2**256 - 1,
        input="0x",
        succeeded=True,
    )
    return replace(sample_call, **values)


def node(number: int, **values: Any) -> Node:
    return replace(create_node(address(number), number, 1000, 0), **values)


def task(number: int, **values: Any) -> Task:
    return replace(create_task(task_key(number)), **values)


# --- Hypothesis strategies ---

whole = st.integers(0, 2**63 - 1)
amounts = st.integers(0, 2**256 - 1)
# Any text that a chain may contain: Unicode with NUL and backslash.
words = st.text(st.characters(exclude_categories=["Cs"]), max_size=12) | st.sampled_from(
    ["\x00", "\\0", "\\\\", "a\\\x00b", "\\"]
)
addresses = st.integers(0, 2**160 - 1).map(address)
positions = st.builds(Position, whole, whole, st.integers(-1, 2**63 - 1), whole)
versions = st.tuples(whole, whole, whole)
names = st.lists(words, max_size=3).map(tuple)

nodes = st.builds(
    Node,
    address=addresses,
    seat=st.integers(0, 2**32 - 1),
    membership=st.sampled_from(Membership),
    paused=st.booleans(),
    running=st.integers(0, 3),
    stake=st.none() | amounts,
    gpu_name=st.none() | words,
    gpu_vram=st.none() | whole,
    version=st.none() | versions,
    models=names,
    in_use=names,
    timeout=st.none() | whole,
    pool=st.binary(max_size=50),
    pool_sum=whole,
    scored=whole,
    base=st.integers(0, 10**18),
    since=st.integers(0, 2**62),
    excluded=st.booleans(),
    prior=st.none() | st.integers(0, 10**18),
    restarts=st.integers(0, 3),
    kickout_due_since=st.none() | positions,
    kickout_due_time=st.none() | st.integers(0, 2**40 - 1),
    last_scored_at=st.none() | st.integers(0, 2**40 - 1),
    starts_anew=st.booleans(),
    changed_at=whole,
    window=whole,
    window_sum=whole,
    window_count=whole,
    online_since=st.none() | whole,
    online_seconds=whole,
    downloads=st.lists(st.builds(DownloadRequest, words, whole, whole), max_size=2).map(tuple),
)

runs = st.builds(
    Run,
    round=st.integers(0, 2),
    node=addresses,
    started_at=positions,
    started_time=whole,
    committed_at=st.none() | positions,
    disclosed_at=st.none() | positions,
    reported_at=st.none() | positions,
    ending=st.none() | st.sampled_from(Ending),
)

tasks = st.builds(
    Task,
    key=st.integers(0, 2**256 - 1).map(task_key),
    created_at=st.none() | positions,
    creator=st.none() | addresses,
    fee=st.none() | amounts,
    min_vram=st.none() | whole,
    required_gpu=st.none() | words,
    required_gpu_vram=st.none() | whole,
    models=names,
    version=st.none() | versions,
    size=st.none() | whole,
    kind=st.none() | st.sampled_from(TaskKind),
    timeout=st.none() | whole,
    group=st.none() | st.integers(0, 2**256 - 1).map(group_key),
    queued=st.booleans(),
    node=st.none() | addresses,
    started_at=st.none() | positions,
    started_time=st.none() | whole,
    stopped_at=st.none() | positions,
    stopped_time=st.none() | whole,
    error_reported=st.booleans(),
    revealed_at=st.none() | positions,
    freed=st.booleans(),
    group_size=st.none() | whole,
    validated=st.booleans(),
    ending=st.none() | st.sampled_from(Ending),
    ended_at=st.none() | positions,
    ended_time=st.none() | whole,
    abort_reason=st.none() | st.sampled_from(AbortReason),
    scored_in=st.none() | st.integers(0, 2**256 - 1).map(group_key),
    runs=st.lists(runs, max_size=3).map(tuple),
)
