"""The chain leaves blocks that we hold: cases 1 to 3, 6 to 15, 21 and 51 of chain.md section 5."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from oracle.errors import TransientError
from oracle.fakechain.block_faults import cached
from oracle.fakechain.blocks import Block
from oracle.fakechain.clock import VirtualClock
from oracle.fakechain.faults import Fault
from oracle.fakechain.provider import Provider
from oracle.fakechain.transport_faults import then
from oracle.services.indexing import Indexed
from oracle.services.refolding import Manner, refold
from oracle.services.rewinding import Rewound
from oracle.store.store import Store, Unit
from oracle.telemetry import fork_metrics, metrics
from tests.faults.a_chain import AChain
from tests.faults.conftest import OpenIndexer
from tests.faults.dumping import dump
from tests.faults.indexer import Indexer
from tests.faults.speaking import network, tx
from tests.traffic import address

NEWCOMER = address(0xBEEF)


def joins() -> Any:
    """A node that nobody has heard of joins."""
    return network(
        "NodeJoined",
        node=NEWCOMER,
        stake=1,
        gpuName="",
        gpuVram=0,
        major=0,
        minor=0,
        patch=0,
        models=[],
    )


def count(metric: Any) -> float:
    return float(metric._value.get())


def patiently(indexer: Indexer) -> list[object]:
    """Index to the head; a step that fails is taken again, as the daemon does."""
    done: list[object] = []
    for _ in range(60):
        try:
            step = indexer.step()
        except TransientError as error:
            done.append(error)
            continue
        if step is None:
            return done
        done.append(step)
    raise AssertionError(done)


def holds_the_chain(indexer: Indexer, a_chain: AChain, head: Block | None = None) -> None:
    """What it holds is what the chain says, and what folding all of it anew gives."""
    head = head or a_chain.head
    assert indexer.cursor == (head.number, head.hash)
    assert indexer.canonical_logs() == a_chain.logs(head)
    assert indexer.holes() == []
    assert refold(indexer.store, indexer.folder, Manner(dry_run=True)).same


def header_batches(provider: Provider) -> list[int]:
    """Note how many headers each batch asks for, from now on."""
    sizes: list[int] = []

    def note(asked: Any, answers: Any) -> Any:
        sizes.append(len(asked))
        return answers

    fault = Fault("counts", change_batch=note, limits={"methods": "eth_getBlockByNumber"})
    provider.faults.append(fault)
    return sizes


class Counting:
    """A store that counts the transactions that write."""

    def __init__(self, store: Store) -> None:
        self.reading = store.reading
        self._transaction = store.transaction
        self.writes = 0

    @contextmanager
    def transaction(self) -> Iterator[Unit]:
        with self._transaction() as unit:
            yield unit
        self.writes += 1


def test_case_01_a_fork_of_one_block_is_rolled_back_once(indexer: Indexer, a_chain: AChain):
    indexer.index()
    before = count(metrics.REORGS)
    a_chain.live(1, on=a_chain.back(1))

    done = indexer.index()

    assert [one.depth for one in done if isinstance(one, Rewound)] == [1]
    assert count(metrics.REORGS) == before + 1
    holds_the_chain(indexer, a_chain)


@pytest.mark.parametrize(("depth", "finality"), [(64, 80)])
def test_case_02_a_fork_of_64_blocks_is_found_by_one_batch_and_undone_in_one_transaction(
    a_chain: AChain, open_indexer: OpenIndexer, depth: int, finality: int
):
    for provider in a_chain.providers:
        provider.tags = {"safe": 2, "finalized": finality}
    indexer = open_indexer(*a_chain.urls, finality=finality)
    a_chain.live(90)
    indexer.index()
    a_chain.live(depth, on=a_chain.back(depth))
    sizes = header_batches(a_chain.provider)
    counting = Counting(indexer.store)

    rewound = indexer.step(counting)  # type: ignore[arg-type]  # as much of a store as is used

    assert isinstance(rewound, Rewound)
    assert rewound.depth == depth
    assert [size for size in sizes if size >= depth] == [finality + 1]
    assert counting.writes == 1
    indexer.index()
    holds_the_chain(indexer, a_chain)


def test_case_03_a_fork_deeper_than_one_batch_is_undone_from_stored_headers(
    a_chain: AChain, open_indexer: OpenIndexer
):
    for provider in a_chain.providers:
        provider.tags = {"safe": 2, "finalized": 240}
    indexer = open_indexer(*a_chain.urls, finality=240)
    a_chain.live(60)
    a_chain.quiet(160)
    a_chain.live(20)
    indexer.index()
    a_chain.live(210, on=a_chain.back(205))

    done = indexer.index()

    assert [one.depth for one in done if isinstance(one, Rewound)] == [205]
    holds_the_chain(indexer, a_chain)


@pytest.mark.parametrize("question", range(1, 9))
def test_case_06_a_fork_during_a_rollback_finds_it_done_or_not_begun(
    indexer: Indexer, a_chain: AChain, question: int
):
    """After each of the questions that a rollback asks, the chain goes another way once more."""
    indexer.index()
    ours = a_chain.head
    first = a_chain.live(4, on=a_chain.back(3, ours))
    second = a_chain.tree.mine_many(6, on=a_chain.back(5, ours))
    a_chain.show(first)
    asked = [0]

    def count_down(_asked: object) -> None:
        asked[0] += 1
        if asked[0] == question:
            a_chain.show(second)

    for provider in a_chain.providers:
        provider.faults.append(then(count_down, methods="eth_getBlockByNumber"))
    for _ in range(40):
        before = dump(indexer.url)
        try:
            if indexer.step() is None and indexer.cursor[1] == second.hash:
                break
        except TransientError:
            assert dump(indexer.url) == before

    holds_the_chain(indexer, a_chain, second)


def test_case_07_a_window_of_a_fork_that_came_while_it_was_read_is_thrown_away(
    indexer: Indexer, a_chain: AChain
):
    indexer.index()
    ours = indexer.cursor
    other = a_chain.tree.mine_many(6, on=a_chain.back(2))
    a_chain.live(3, on=a_chain.tree.blocks.by_hash[ours[1]])
    flips = then(lambda _asked: a_chain.show(other), methods="eth_getBlockByNumber", times=1)
    a_chain.provider.faults.append(flips)

    done = patiently(indexer)

    assert isinstance(next(one for one in done if not isinstance(one, Exception)), Rewound)
    holds_the_chain(indexer, a_chain, other)


def test_case_08_a_chain_that_became_shorter_is_seen_by_the_hash_at_its_head(
    indexer: Indexer, a_chain: AChain
):
    indexer.index()
    a_chain.live(2, on=a_chain.back(5))

    (rewound, *_) = indexer.index()

    assert isinstance(rewound, Rewound)
    assert rewound.depth == 5
    holds_the_chain(indexer, a_chain)


def test_case_09_a_fork_that_shows_one_block_later_is_found_by_the_parent(
    indexer: Indexer, a_chain: AChain
):
    indexer.index()
    a_chain.live(2, on=a_chain.back(1))

    (rewound, *_) = indexer.index()

    assert isinstance(rewound, Rewound)
    assert rewound.depth == 1
    holds_the_chain(indexer, a_chain)


def test_case_10_an_event_that_a_fork_puts_into_an_empty_height_appears(
    indexer: Indexer, a_chain: AChain
):
    a_chain.quiet(3)
    indexer.index()
    a_chain.say(joins(), on=a_chain.back(3))
    a_chain.quiet(2)

    indexer.index()

    with indexer.store.reading() as unit:
        assert NEWCOMER in unit.nodes.named([NEWCOMER])
    holds_the_chain(indexer, a_chain)


def test_case_11_the_only_event_of_a_block_goes_with_the_block(
    indexer: Indexer, a_chain: AChain, open_indexer: OpenIndexer
):
    without = open_indexer(*a_chain.urls)
    without.index()
    gone = a_chain.say(joins())
    indexer.index()
    with indexer.store.reading() as unit:
        assert NEWCOMER in unit.nodes.named([NEWCOMER])
    a_chain.quiet(1, on=a_chain.back(1))

    indexer.index()
    without.index()

    with indexer.store.reading() as unit:
        assert unit.nodes.named([NEWCOMER]) == {}
        orphans = list(unit.logs.between(gone.number, gone.number, canonical=False))
    assert [log.block_hash for log in orphans] == [gone.hash]
    assert indexer.digest() == without.digest()
    holds_the_chain(indexer, a_chain)


def test_case_12_a_transaction_that_is_included_again_elsewhere_counts_once(
    indexer: Indexer, a_chain: AChain
):
    first = a_chain.say(joins())
    indexer.index()
    # The same transaction, one block later and behind another one.
    between = a_chain.quiet(1, on=a_chain.back(1))
    paused = tx(network("NodePaused", node=address(0xF00)))
    again = a_chain.tree.mine([paused, *first.txs], between)
    a_chain.show(again)

    indexer.index()

    tx_hash = first.transactions[0]["hash"]
    with indexer.store.reading() as unit:
        counted = [log for log in unit.logs.between(0, 10**6) if log.tx_hash == tx_hash]
        orphans = list(unit.logs.between(first.number, first.number, canonical=False))
    assert [(log.block_hash, log.index) for log in counted] == [(again.hash, 1)]
    assert [(log.tx_hash, log.index) for log in orphans] == [(tx_hash, 0)]
    holds_the_chain(indexer, a_chain)


def test_case_13_there_and_back_again_leaves_everything_as_it_was(
    indexer: Indexer, a_chain: AChain
):
    indexer.index()
    first, ours = a_chain.head, dump(indexer.url, orphans=False)
    second = a_chain.live(4, on=a_chain.back(4))
    for _ in range(3):
        indexer.index()
        assert indexer.cursor == (second.number, second.hash)
        a_chain.show(first)
        indexer.index()
        assert told(dump(indexer.url, orphans=False)) == told(ours)
        a_chain.show(second)
    a_chain.show(first)
    indexer.index()

    holds_the_chain(indexer, a_chain, first)


def told(rows: list[str]) -> list[str]:
    """Leave out that there were forks, who read what, and reports: missed ones stay missed."""
    besides = ("reorg_log", "coverage", "verified_block", "report")
    return [row for row in rows if not row.startswith(besides)]


def test_case_14_a_fork_while_we_were_down_is_found_before_the_first_fetch(
    indexer: Indexer, a_chain: AChain
):
    indexer.index()
    a_chain.live(12, on=a_chain.back(6))
    indexer.restart()
    asked = a_chain.provider.count("eth_getLogs")

    rewound = indexer.step()

    assert isinstance(rewound, Rewound)
    assert rewound.depth == 6
    assert [provider.count("eth_getLogs") for provider in a_chain.providers] == [asked, 0]
    indexer.index()
    holds_the_chain(indexer, a_chain)


def test_case_15_skipped_heights_stall_nothing(indexer: Indexer, a_chain: AChain):
    indexer.index()
    for skipped in (1, 3):
        last = a_chain.head
        joined = a_chain.tree.mine([tx(joins())], number=last.number + 1 + skipped)
        a_chain.show(joined)
        a_chain.live(3)
        indexer.index()

    holds_the_chain(indexer, a_chain)
    # And a fork across them is undone.
    a_chain.live(6, on=a_chain.back(2))
    (rewound, *_) = indexer.index()
    assert isinstance(rewound, Rewound)
    holds_the_chain(indexer, a_chain)


@pytest.mark.parametrize("seconds", [0, -5])
def test_case_21_times_that_stand_still_or_go_back_change_no_order(
    indexer: Indexer, a_chain: AChain, open_indexer: OpenIndexer, seconds: int
):
    indexer.index()
    for _ in range(3):
        a_chain.live(5, seconds=seconds)
        a_chain.live(1)
        indexer.index()
    at_once = open_indexer(*a_chain.urls)
    at_once.index()

    assert indexer.digest() == at_once.digest()
    holds_the_chain(indexer, a_chain)


def test_case_51_a_proxy_that_keeps_an_orphan_is_outvoted(
    a_chain: AChain, open_indexer: OpenIndexer
):
    """It has our orphaned block in its cache, and the blocks after it from the chain."""
    clock = VirtualClock()
    indexer = open_indexer(*a_chain.urls, clock=clock)
    by_number = cached(
        methods="eth_getBlockByNumber", when=lambda asked: str(asked.params[0]).startswith("0x")
    )
    a_chain.provider.faults.append(by_number)
    indexer.index()
    # What it is asked, it keeps.
    indexer.source.witness(a_chain.head.number)
    a_chain.live(3, on=a_chain.back(1))

    for _ in range(10):
        patiently(indexer)
        clock.pass_by(5.0)

    assert by_number.hits
    assert indexer.cursor == (a_chain.head.number, a_chain.head.hash)
    assert indexer.canonical_logs() == a_chain.logs()


def test_case_51_a_fork_that_one_proxy_alone_claims_is_no_fork(
    a_chain: AChain, open_indexer: OpenIndexer
):
    clock = VirtualClock()
    indexer = open_indexer(*a_chain.urls, clock=clock)
    indexer.index()
    reorgs, rejected = count(metrics.REORGS), count(fork_metrics.REJECTED.labels("outvoted"))
    a_chain.provider.head = a_chain.tree.mine_many(2, on=a_chain.back(1))
    a_chain.following = a_chain.providers[1:]

    with pytest.raises(TransientError, match="denies: put aside, nothing undone"):
        indexer.step()
    a_chain.live(2, on=a_chain.back(1, a_chain.providers[1].head))
    a_chain.show(a_chain.providers[1].head)
    clock.pass_by(1.0)

    assert count(fork_metrics.REJECTED.labels("outvoted")) == rejected + 1
    assert count(metrics.REORGS) == reorgs


def test_case_51_windows_come_from_the_other_endpoint_then(
    a_chain: AChain, open_indexer: OpenIndexer
):
    clock = VirtualClock()
    indexer = open_indexer(*a_chain.urls, clock=clock)
    indexer.index()
    ours = a_chain.head
    a_chain.provider.head = a_chain.tree.mine_many(2, on=a_chain.back(1))
    a_chain.following = a_chain.providers[1:]
    patiently(indexer)
    a_chain.live(4, on=ours)

    done = patiently(indexer)

    assert not [one for one in done if isinstance(one, Rewound)]
    assert any(isinstance(one, Indexed) for one in done)
    holds_the_chain(indexer, a_chain)
