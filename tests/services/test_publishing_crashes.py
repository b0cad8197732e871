"""The daemon dies at every commit and every send of a push; the next one finishes it."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from oracle.publisher.line import Lines
from oracle.publisher.sender import Sent, send
from oracle.services import publishing
from oracle.store.store import Store, Unit
from tests.evm.chain import Chain
from tests.evm.fixtures import chain
from tests.office import Office, Premises
from tests.services.conftest import NewStore
from tests.services.office_fixtures import fresh_chain, fresh_premises, premises

__all__ = ["chain", "fresh_chain", "fresh_premises", "premises"]


class Crash(BaseException):
    """The process is gone: nothing catches it, nothing runs after it."""


class Fuse:
    """Burns through at one of the points that it is told of, counted from 0; then never again."""

    def __init__(self, at: int | None = None) -> None:
        self.passed: list[str] = []
        self._at = at

    def point(self, name: str) -> None:
        self.passed.append(name)
        if self._at is not None and len(self.passed) == self._at + 1:
            raise Crash(name)


class FusedStore:
    """A store whose writer may die just before and just after each commit."""

    def __init__(self, store: Store, fuse: Fuse) -> None:
        self._store = store
        self._fuse = fuse
        self.reading = store.reading

    @contextmanager
    def transaction(self) -> Iterator[Unit]:
        with self._store.transaction() as unit:
            yield unit
            self._fuse.point("before a commit")
        self._fuse.point("after a commit")


@contextmanager
def fused(office: Office, fuse: Fuse) -> Iterator[None]:
    """The publishing side runs on the fuse; indexing, which has tests of its own, does not."""

    def fused_send(lines: Lines, raw: bytes) -> Sent:
        fuse.point("before a send")
        sent = send(lines, raw)
        fuse.point("after a send")
        return sent

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(publishing, "send", fused_send)
        office.desk = replace(office.desk, store=cast("Store", FusedStore(office.store, fuse)))
        yield


def play(office: Office) -> None:
    """From the report to the finality of its round, at one's own pace."""
    office.tick()
    office.mine()
    office.until_final()


def points(premises: Premises, store: Store, evidence: Path) -> list[str]:
    """Where a push can die: a whole one, watched."""
    office = Office(premises, store, evidence)
    office.period()
    fuse = Fuse()
    with fused(office, fuse):
        play(office)
    office.close()
    return fuse.passed


@pytest.mark.slow
def test_whoever_dies_during_a_push_has_one_successor_who_finishes_it(
    premises: Premises, fresh_chain: Chain, new_store: NewStore, tmp_path: Path
):
    with fresh_chain.undone(), new_store() as store:
        passed = points(premises, store, tmp_path)
    # An older report overtaken; planned, ready, assigned, signed, sent, mined, final.
    assert passed.count("after a commit") == 8
    assert passed.count("after a send") == 1

    for number, name in enumerate(passed):
        with fresh_chain.undone(), new_store() as store:
            office = Office(premises, store, tmp_path)
            office.period()
            with pytest.raises(Crash), fused(office, Fuse(number)):
                play(office)
            office.restart()
            play(office)

            where = f"{name} {number}"
            assert premises.round == 1, where
            assert premises.nonce == 2, where  # the deployment's, and one push
            assert office.states() == ["final"], where
            assert [state for state, _ in office.reports()].count("landed") == 1, where
            office.close()
