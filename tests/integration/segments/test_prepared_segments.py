"""Segments that were ready when the writer died: used completely, or discarded."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from oracle.chain.segments import segment_queue
from oracle.chain.segments.staging import SegmentStage
from oracle.chain.verification.calibration import Calibration
from oracle.chain.verification.verification_policy import VerificationPolicy
from tests.integration.segments.conftest import RANGE, OpenPrepared, outcomes
from tests.support.ingest.dumping import dump_database_rows
from tests.support.ingest.indexer import Indexer, limit_ranges

Damage = Callable[[Path], None]


@pytest.fixture(autouse=True)
def _one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ingest prepared segments one by one, as with a large window."""
    monkeypatch.setattr(segment_queue, "_MAX_JOINED_LOGS", 0)


@dataclass
class CapabilityMemory:
    """Learned capabilities of chain and endpoints, as the database keeps them between runs."""

    facts: dict[str, dict[str, str]] = field(default_factory=dict)

    def load_facts(self, endpoint: str) -> dict[str, str]:
        return dict(self.facts.get(endpoint, {}))

    def save_fact(self, endpoint: str, key: str, value: str, _seconds: float | None) -> None:
        self.facts.setdefault(endpoint, {})[key] = value


def staged_in(
    indexer: Indexer, folder: Path, capability_store: CapabilityMemory | None = None
) -> None:
    indexer.source.configure_verification(
        VerificationPolicy(), Calibration(capability_store=capability_store or CapabilityMemory())
    )
    limit_ranges(indexer, RANGE)
    stage = SegmentStage(folder, indexer.pool.plan.id)
    indexer.source.use_workers(indexer.pool, 1, stage)


def step_until_staged(indexer: Indexer, folder: Path) -> Iterator[Path]:
    """Step until a segment is on disk, each time after all running segments are ready."""
    for _ in range(8):
        indexer.step()
        for pending in tuple(indexer.source._read_ahead_queue._pending_ranges):
            if pending.worker_answer is not None:
                pending.worker_answer.result()
    yield from folder.glob("*.segment")


def test_staged_segments_are_used_by_the_next_writer(
    expected: list[str], open_prepared: OpenPrepared, tmp_path: Path
):
    first = open_prepared(2)
    capability_store = CapabilityMemory()
    staged_in(first, tmp_path / "stage", capability_store)
    assert list(step_until_staged(first, tmp_path / "stage"))
    before = outcomes("recalled")

    # The first one is not closed before the second one has read everything, like a killed
    # process.
    second = open_prepared(2, url=first.url)
    staged_in(second, tmp_path / "stage", capability_store)
    second.index()

    assert outcomes("recalled") > before
    assert dump_database_rows(second.url) == expected


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def change_last_byte(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def empty(path: Path) -> None:
    path.write_bytes(b"")


@pytest.mark.parametrize("damage", [cut, change_last_byte, empty])
def test_damaged_staged_file_is_discarded(
    expected: list[str], open_prepared: OpenPrepared, tmp_path: Path, damage: Damage
):
    first = open_prepared(2)
    folder = tmp_path / "stage"
    capability_store = CapabilityMemory()
    staged_in(first, folder, capability_store)
    for path in step_until_staged(first, folder):
        damage(path)
    before = outcomes("recalled")

    second = open_prepared(2, url=first.url)
    staged_in(second, folder, capability_store)
    second.index()

    assert outcomes("recalled") == before
    assert dump_database_rows(second.url) == expected


def test_staged_files_of_another_plan_are_discarded(open_prepared: OpenPrepared, tmp_path: Path):
    first = open_prepared(2)
    folder = tmp_path / "stage"
    staged_in(first, folder)
    assert list(step_until_staged(first, folder))

    SegmentStage(folder, b"another plan")

    assert not list(folder.iterdir())


def test_staged_files_are_deleted_when_the_writer_closes(
    open_prepared: OpenPrepared, tmp_path: Path
):
    indexer = open_prepared(2)
    folder = tmp_path / "stage"
    staged_in(indexer, folder)
    assert list(step_until_staged(indexer, folder))

    indexer.close()

    assert not list(folder.iterdir())
