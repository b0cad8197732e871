"""A store that dies at a chosen call inside a transaction, or just before the commit."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, cast

from oracle.store.database import Store, UnitOfWork


class Died(BaseException):  # as a process does: nothing may catch it
    """The process has died: like a real process, nothing may catch this exception."""


class Brittle:
    """Forwards everything to a real store, and dies after `calls` calls inside a transaction."""

    def __init__(self, store: Store, calls: int) -> None:
        self._store = store
        self._left = calls

    def read_transaction(self) -> AbstractContextManager[UnitOfWork]:
        return self._store.read_transaction()

    def call_before_close(self, stop_reader: Callable[[], None]) -> None:
        self._store.call_before_close(stop_reader)

    @contextmanager
    def transaction(self) -> Iterator[UnitOfWork]:
        with self._store.transaction() as uow:
            yield cast("UnitOfWork", _Watched(uow, self.count))
            self.count()

    def count(self) -> None:
        if self._left == 0:
            raise Died
        self._left -= 1


class _Watched:
    """A unit of work, or a repository of it, whose calls are counted."""

    def __init__(self, watched: object, count: Callable[[], None]) -> None:
        self._watched = watched
        self._count = count

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._watched, name)
        if not callable(attribute):
            return _Watched(attribute, self._count)

        def counted(*arguments: object, **named: object) -> object:
            self._count()
            return attribute(*arguments, **named)

        return counted


def die_at_each_call(
    store: Store, step: Callable[[Store], object], unharmed: Callable[[], bool]
) -> int:
    """Repeat `step`, dying one call later each time, until it succeeds; count the deaths.

    `unharmed` is checked after each death.
    """
    died = 0
    while True:
        try:
            step(cast("Store", Brittle(store, died)))
        except Died:
            died += 1
            assert unharmed(), f"half of it was written at call {died}"
        else:
            return died
