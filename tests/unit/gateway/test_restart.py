"""A restarted service answers like one that was never restarted."""

import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from shutil import copyfile
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, strategies as st

from gateway.gateway_records import ReportedOutcome
from gateway.gateway_rules import GatewayRules
from gateway.node_checks import CheckedNode, CheckRules, NodeChecks, ProbeAnswer
from gateway.selection_service import SelectionService
from oracle.errors import TransientError
from oracle.store.database import Store
from oracle.systems.pocket.relay_outcomes import OutcomeKind
from tests.support.examples import examples
from tests.unit.gateway.relays import (
    CHAIN,
    NODES,
    T0,
    build_failure,
    build_request,
    histories,
    make_outcome,
)

NOW = T0 + 400_000


class Clock:
    def __init__(self) -> None:
        self.now = T0

    def __call__(self) -> int:
        return self.now


def service(store: Store, clock: Clock, lose=lambda: None) -> SelectionService:
    checks = {CHAIN: NodeChecks(CheckRules(chain_id=1), {node: CheckedNode() for node in NODES})}
    return SelectionService(store, GatewayRules(ranking_ms=0), checks, lose, clock)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def opened(database_url: str) -> Iterator[Store]:
    with Store.open(database_url) as store:
        yield store


def copy_store(template: Path, to: Path) -> Store:
    copyfile(template, to)
    return Store.open(f"sqlite:///{to}")


@given(
    history=histories(),
    restarts=st.sets(st.integers(0, 60), max_size=5),
    checks=st.sets(st.integers(0, 60)),
)
@examples(15)
def test_restarts_do_not_change_tickets(
    sqlite_template: Path, history: list[ReportedOutcome], restarts: set[int], checks: set[int]
):
    clock = Clock()
    with TemporaryDirectory() as folder, ExitStack() as opened:
        first, second = (
            opened.enter_context(copy_store(sqlite_template, Path(folder) / name)) for name in "ab"
        )
        always = service(first, clock)
        often = service(second, clock)
        for number, reported_outcome in enumerate(history):
            clock.now = reported_outcome.outcome.t_ms
            if number in restarts:
                often.writer.write_queued_records()
                often = service(second, clock)
            for gateway_service in (always, often):
                gateway_service.record_outcomes([reported_outcome])
                if number in checks:
                    gateway_service.apply_probe_answers(
                        CHAIN, {node: ProbeAnswer(1, 10) for node in NODES}
                    )
        clock.now = NOW
        often.writer.write_queued_records()
        rankings = [
            gateway_service.get_ranking_and_seed(build_request())[0]
            for gateway_service in (always, service(second, clock))
        ]
    assert rankings[0].ranking == rankings[1].ranking


def test_duplicate_outcome_is_recognised_after_restart(opened: Store, clock: Clock):
    before = service(opened, clock)
    before.record_outcomes([make_outcome("node-0", outcome_id="x")])
    before.writer.write_queued_records()
    assert (
        service(opened, clock).record_outcomes([make_outcome("node-0", outcome_id="x")]).repeated
        == 1
    )


def test_failed_check_is_restored_after_restart(opened: Store, clock: Clock):
    before = service(opened, clock)
    before.apply_probe_answers(CHAIN, {"node-0": ProbeAnswer(2, 10), "node-1": ProbeAnswer(1, 10)})
    before.writer.write_queued_records()
    session_ranking, _ = service(opened, clock).get_ranking_and_seed(
        build_request("node-0", "node-1")
    )
    assert session_ranking.ranking.left_out == {"node-0": "wrong_chain"}


def test_previous_seeds_are_published_after_restart(opened: Store, clock: Clock):
    before = service(opened, clock)
    done = before.select_nodes(build_request("node-0"))
    before.writer.write_queued_records()
    after = service(opened, clock)
    clock.now += 1
    assert done.epoch in after.list_ended_and_open_epochs()[0]
    assert after.select_nodes(build_request("node-0")).epoch != done.epoch


def test_expired_outcomes_are_removed_from_database(opened: Store, clock: Clock):
    gateway_service = service(opened, clock)
    gateway_service.record_outcomes(
        [make_outcome("node-0"), make_outcome("node-1", kind=OutcomeKind.EXHAUSTED)]
    )
    gateway_service.writer.write_queued_records()
    for minutes, left in ((11, ["node-1"]), (61, [])):
        clock.now = T0 + minutes * 60_000
        gateway_service.record_outcomes([make_outcome("node-2", clock.now)])
        gateway_service.writer.write_queued_records()
        with opened.read_transaction() as uow:
            stored_nodes = [
                stored_outcome.node for stored_outcome in uow.gateway.outcomes.iterate_all()
            ]
        assert [node for node in stored_nodes if node != "node-2"] == left


def reason(of: SelectionService) -> str | None:
    """Return why outcomes are not written; computed at each call."""
    return of.write_failure


class UnreachableStore:
    """A database that can be made unreachable."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.is_away = False

    def read_transaction(self):
        return self._store.read_transaction()

    def transaction(self):
        if self.is_away:
            raise TransientError("the disk is full")
        return self._store.transaction()


def test_outcomes_during_database_failure_are_written_later(opened: Store, clock: Clock):
    away = UnreachableStore(opened)
    gateway_service = service(away, clock)  # type: ignore[arg-type]
    gateway_service.record_outcomes([make_outcome("node-0")])
    away.is_away = True
    gateway_service.record_outcomes([build_failure("node-1")])
    gateway_service.writer.write_queued_records()
    assert reason(gateway_service) == "the disk is full"
    away.is_away = False
    gateway_service.record_outcomes([make_outcome("node-2")])
    gateway_service.writer.write_queued_records()
    assert reason(gateway_service) is None
    with opened.read_transaction() as uow:
        rows = list(uow.gateway.outcomes.iterate_all())
    assert [row.node for row in rows] == ["node-0", "node-1", "node-2"]
    assert [row.number for row in rows] == [0, 1, 2]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_crashed_writer_reports_failure(opened: Store, clock: Clock):
    lost = threading.Event()
    gateway_service = service(opened, clock, lost.set)
    gateway_service.writer.start_writing(lambda: 1 / 0)
    assert lost.wait(60)
    gateway_service.writer._thread.join()
    assert str(gateway_service.write_failure) == "the database writer has crashed"


def test_gateway_time_never_decreases(opened: Store, clock: Clock):
    gateway_service = service(opened, clock)
    gateway_service.record_outcomes([build_failure("node-0")])
    clock.now -= 60_000
    assert gateway_service.get_ranking_and_seed(build_request("node-0"))[0].as_of == T0
