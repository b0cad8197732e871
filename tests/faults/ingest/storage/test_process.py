"""A process that is killed at any moment, as by `kill -9`, loses and duplicates nothing."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from tests.faults.ingest.conftest import OpenIndexer
from tests.properties.machine.mortal import Nursery, nursery
from tests.support.ingest.dumping import dump_database_rows
from tests.support.ingest.fake_chain import FakeChain
from tests.support.ingest.indexer import Indexer

# The points that must be reached, in this order (docs/explanation/ingest.md#commit and
# docs/explanation/reorgs.md).
COMMIT = (
    "begin",
    "CursorRepository.get",
    "LogRepository.append",
    "BlockRepository.save",
    "CoverageRepository.store_interval",
    "NodeRepository.save",
    "TaskRepository.save",
    "UndoJournal.write",
    "ReportRepository.add",
    "UndoJournal.prune_journal_to",
    "BlockRepository.prune_below",
    "CursorRepository.move_to",
    "commit",
    "committed",
)
ROLLBACK = (
    "begin",
    "UndoJournal.rollback_to",
    "LogRepository.orphan_above",
    "BlockRepository.orphan_above",
    "CoverageRepository.delete_above",
    "ReportRepository.delete_from_block",
    "IntentRepository.expire_intents_above",
    "CursorRepository.move_to",
    "commit",
    "committed",
)


@pytest.fixture(scope="module")
def bearing() -> Iterator[Nursery]:
    with nursery() as process:
        yield process


@dataclass
class Ordeal:
    """Indexers that die on one database, one after the other.

    `states` are the states after each commit, in order; any other state fails the test.
    """

    bearing: Nursery
    urls: list[str]
    url: str
    states: list[list[str]]
    died_at: list[str] = field(default_factory=list)

    def at_every_point(self) -> None:
        """Let each indexer die one point later than the one before.

        Restart the count at a commit.
        """
        die_at = 0
        while (life := self.bearing.index(self.urls, self.url, die_at)).died_at is not None:
            die_at = die_at + 1 if self._left_alone(life.died_at) else 0

    def at_each_step(self, steps: tuple[str, ...]) -> None:
        """Let an indexer die before the first call of each step, and let a last one finish."""
        for step in steps:
            died_at = self.bearing.index(self.urls, self.url, step).died_at
            assert died_at == step
            self._left_alone(step)
        assert self.bearing.index(self.urls, self.url).died_at is None

    def _left_alone(self, died_at: str) -> bool:
        """Return whether nothing changed; the only permitted change is a complete commit."""
        self.died_at.append(died_at)
        now = dump_database_rows(self.url)
        before = self.states[0]
        while self.states[0] != now:
            self.states.pop(0)
            assert self.states, f"half of it was written when killed before {died_at}"
        return now == before


def list_committed_states(indexer: Indexer) -> list[list[str]]:
    """Return the state of the database before and after each turn of an undisturbed indexer."""
    states = [dump_database_rows(indexer.url)]
    indexer.index(lambda: states.append(dump_database_rows(indexer.url)))
    return [*states, dump_database_rows(indexer.url)]


def has_in_order(passed_points: list[str], expected_points: tuple[str, ...]) -> bool:
    """Return whether the expected points were all passed, in this order."""
    remaining_points = iter(passed_points)
    return all(point in remaining_points for point in expected_points)


@pytest.fixture
def undisturbed_indexer(open_indexer: OpenIndexer, fake_chain: FakeChain) -> Indexer:
    """Return an undisturbed indexer that reads the same chain into its own database."""
    return open_indexer(*fake_chain.urls)


@pytest.fixture
def killed_indexer_url(
    fake_chain: FakeChain, database_url: str, undisturbed_indexer: Indexer
) -> str:
    """Return the URL of a database that is as far as the undisturbed indexer's."""
    for indexer in (undisturbed_indexer, Indexer(fake_chain.urls, database_url)):
        indexer.index()
        indexer.close()
    return database_url


def assert_end_equals_undisturbed(
    bearing: Nursery,
    killed_indexer_url: str,
    undisturbed_indexer: Indexer,
    steps: tuple[str, ...],
    *,
    bounded: bool,
) -> None:
    """Assert the same end after deaths: at every point on SQLite, else at each step.

    `bounded` also limits the deaths on SQLite to the steps.
    """
    undisturbed_indexer.restart()
    ordeal = Ordeal(
        bearing,
        list(undisturbed_indexer.urls),
        killed_indexer_url,
        list_committed_states(undisturbed_indexer),
    )
    if killed_indexer_url.startswith("sqlite") and not bounded:
        ordeal.at_every_point()
    else:
        ordeal.at_each_step(steps)
    assert has_in_order(ordeal.died_at, steps), ordeal.died_at
    assert dump_database_rows(killed_indexer_url) == dump_database_rows(undisturbed_indexer.url)


def test_case_58_commit_killed_midway_is_repeated_identically(
    fake_chain: FakeChain,
    killed_indexer_url: str,
    undisturbed_indexer: Indexer,
    bearing: Nursery,
    *,
    bounded: bool,
):
    fake_chain.live(12)
    assert_end_equals_undisturbed(
        bearing, killed_indexer_url, undisturbed_indexer, COMMIT, bounded=bounded
    )


def test_case_58_rollback_killed_midway_is_repeated_identically(
    fake_chain: FakeChain,
    killed_indexer_url: str,
    undisturbed_indexer: Indexer,
    bearing: Nursery,
    *,
    bounded: bool,
):
    fake_chain.live(7, on=fake_chain.back(5))
    assert_end_equals_undisturbed(
        bearing, killed_indexer_url, undisturbed_indexer, ROLLBACK, bounded=bounded
    )


def test_case_59_kill_before_cursor_update_does_not_fold_twice(
    fake_chain: FakeChain, killed_indexer_url: str, undisturbed_indexer: Indexer, bearing: Nursery
):
    fake_chain.live(12)
    before = dump_database_rows(killed_indexer_url)

    # The folded rows are written, but the cursor has not moved yet.
    life = bearing.index(fake_chain.urls, killed_indexer_url, "CursorRepository.move_to")

    assert life.died_at == "CursorRepository.move_to"
    assert dump_database_rows(killed_indexer_url) == before
    assert bearing.index(fake_chain.urls, killed_indexer_url).steps == ["CommittedWindow"]
    undisturbed_indexer.restart()
    undisturbed_indexer.index()
    assert dump_database_rows(killed_indexer_url) == dump_database_rows(undisturbed_indexer.url)
