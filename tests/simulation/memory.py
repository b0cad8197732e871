"""Caches what was read from a database until the next write.

A tick runs the same queries many times, and two replicas query the same database. The first result
is kept until the next commit, so a round takes a third of the time. Queries inside a writing
transaction are not cached.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from types import GeneratorType
from typing import Any, cast

from oracle.store.database import Store, UnitOfWork

# Never cached: the lease depends on the database's clock, and `Books` changes cursor and blocks.
_LIVELY = frozenset({"lease", "cursor", "blocks"})

_Key = tuple[Any, ...]


class Memory:
    """The cached results of one database. If `is_off` is set, nothing is cached.

    One snapshot stays open for queries that are not in the cache, until the next write.
    """

    def __init__(self, store: Store, *, is_off: bool = False) -> None:
        self._store, self._is_off = store, is_off
        self.known: dict[_Key, Any] = {}
        # The number of writes other than those of the lease.
        self.writings = 0
        self._open = ExitStack()
        self._unit: UnitOfWork | None = None

    @property
    def uow(self) -> UnitOfWork:
        """The open snapshot of the database."""
        if self._unit is None:
            self._unit = self._open.enter_context(self._store.read_transaction())
        return self._unit

    @contextmanager
    def read_transaction(self) -> Iterator[UnitOfWork]:
        """Yield a unit of work that reads from the cache, and from the snapshot otherwise."""
        if self._is_off:
            with self._store.read_transaction() as uow:
                yield uow
            return
        with ExitStack() as opened:
            # The database has only a few connections, so all live repositories share one.
            fresh = cache(lambda: opened.enter_context(self._store.read_transaction()))
            yield cast("UnitOfWork", _UnitOfMemory(self, fresh))

    @contextmanager
    def transaction(self) -> Iterator[UnitOfWork]:
        """Run a writing transaction, and reset the cache unless only the lease was written."""
        uow: _Touched | None = None
        try:
            with self._store.transaction() as store_uow:
                uow = _Touched(store_uow)
                yield cast("UnitOfWork", uow)
        finally:
            if uow is not None and uow.touched - {"lease"}:
                self.writings += 1
                self.forget()

    def forget(self) -> None:
        """Reset the cache, and close the snapshot."""
        self.known.clear()
        self._unit = None
        self._open.close()


class _Touched:
    """A unit of work that records which of its repositories are used."""

    def __init__(self, uow: UnitOfWork) -> None:
        self._unit = uow
        self.touched: set[str] = set()

    def __getattr__(self, name: str) -> Any:
        self.touched.add(name)
        return getattr(self._unit, name)


class _UnitOfMemory:
    """A `UnitOfWork` that reads from the cache, except for lease, cursor and blocks."""

    def __init__(self, memory: Memory, fresh: Callable[[], UnitOfWork]) -> None:
        self._memory, self._fresh = memory, fresh

    def __getattr__(self, name: str) -> Any:
        if name in _LIVELY:
            return getattr(self._fresh(), name)
        return _RoomOfMemory(self._memory, (name,))


class _RoomOfMemory:
    """A cached repository of the store, or the outbox, whose repositories are one level deeper."""

    def __init__(self, memory: Memory, path: tuple[str, ...]) -> None:
        self._memory, self._path = memory, path

    def __getattr__(self, name: str) -> Any:
        path = (*self._path, name)
        if self._path == ("outbox",):
            return _RoomOfMemory(self._memory, path)
        return lambda *arguments, **named: self._answer(path, arguments, named)

    def _answer(
        self, path: tuple[str, ...], arguments: tuple[Any, ...], named: dict[str, Any]
    ) -> Any:
        question = (path, *map(_freeze, arguments), *sorted(named.items()))
        cached_answers = self._memory.known
        if question not in cached_answers:
            room: Any = self._memory.uow
            for name in path[:-1]:
                room = getattr(room, name)
            answer = getattr(room, path[-1])(*arguments, **named)
            if isinstance(answer, GeneratorType):
                return answer
            cached_answers[question] = answer
        # The caller may change a list that it receives.
        answer = cached_answers[question]
        return answer.copy() if isinstance(answer, list | dict | set) else answer


def _freeze(argument: Any) -> Any:
    return tuple(argument) if isinstance(argument, list | set) else argument
