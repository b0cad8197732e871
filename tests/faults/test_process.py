"""Faults of the process itself: killed at any moment, as `kill -9` does."""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.faults.a_chain import AChain
from tests.faults.conftest import OpenIndexer
from tests.faults.dumping import dump
from tests.faults.indexer import Indexer
from tests.machine.mortal import Nursery, nursery

# What must have been come to, in this order (chain.md 3.5 and 3.6).
COMMIT = (
    "begin",
    "CursorRoom.get",
    "LogRoom.append",
    "BlockRoom.save",
    "NodeRoom.save",
    "TaskRoom.save",
    "UndoRoom.write",
    "ReportRoom.add",
    "UndoRoom.prune_to",
    "BlockRoom.prune_below",
    "CursorRoom.move_to",
    "commit",
    "committed",
)
ROLLBACK = (
    "begin",
    "UndoRoom.rollback_to",
    "LogRoom.orphan_above",
    "BlockRoom.discard_above",
    "ReportRoom.miss_above",
    "Intents.forget_above",
    "CursorRoom.move_to",
    "commit",
    "committed",
)


@pytest.fixture(scope="module")
def bearing() -> Iterator[Nursery]:
    with nursery() as process:
        yield process


@dataclass
class Ordeal:
    """What killing an indexer at every point showed: where it died, and what it left each time."""

    died_at: list[str]
    left: list[list[str]]


def killed_at_every_point(bearing: Nursery, urls: list[str], url: str) -> Ordeal:
    """Let indexers live on one database, each to die one point later than the one before it.

    Where one of them committed something, the next ones start from there.
    """
    ordeal = Ordeal([], [dump(url)])
    die_at = 0
    while (life := bearing.live(urls, url, die_at)).died_at is not None:
        ordeal.died_at.append(life.died_at)
        now = dump(url)
        die_at = die_at + 1 if now == ordeal.left[-1] else 0
        if die_at == 0:
            ordeal.left.append(now)
    return ordeal


def committed(indexer: Indexer) -> list[list[str]]:
    """What stands in the database before each commit of an indexer that nobody kills, and last."""
    states = [dump(indexer.url)]
    indexer.index(lambda: states.append(dump(indexer.url)))
    return [*states, dump(indexer.url)]


def has_in_order(found: list[str], wanted: tuple[str, ...]) -> bool:
    """Whether all of these were come to, one after the other."""
    rest = iter(found)
    return all(one in rest for one in wanted)


@pytest.fixture
def unharmed(open_indexer: OpenIndexer, a_chain: AChain) -> Indexer:
    """Reads the same chain into a database of its own, and lives."""
    return open_indexer(*a_chain.urls)


def test_case_58_a_commit_killed_at_any_point_ends_as_if_nothing_had_been(
    a_chain: AChain, database_url: str, unharmed: Indexer, bearing: Nursery
):
    for indexer in (unharmed, Indexer(a_chain.urls, database_url)):
        indexer.index()
        indexer.close()
    a_chain.live(12)

    ordeal = killed_at_every_point(bearing, a_chain.urls, database_url)

    assert has_in_order(ordeal.died_at, COMMIT)
    unharmed.restart()
    states = committed(unharmed)
    assert all(one in states for one in ordeal.left)
    assert dump(database_url) == dump(unharmed.url)


def test_case_58_a_rollback_killed_at_any_point_ends_as_if_nothing_had_been(
    a_chain: AChain, database_url: str, unharmed: Indexer, bearing: Nursery
):
    for indexer in (unharmed, Indexer(a_chain.urls, database_url)):
        indexer.index()
        indexer.close()
    a_chain.live(7, on=a_chain.back(5))

    ordeal = killed_at_every_point(bearing, a_chain.urls, database_url)

    assert has_in_order(ordeal.died_at, ROLLBACK)
    unharmed.restart()
    states = committed(unharmed)
    assert all(one in states for one in ordeal.left)
    assert dump(database_url) == dump(unharmed.url)
