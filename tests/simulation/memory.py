"""What was read of a database that nobody has written to since: it is not read again.

A tick asks the same questions many times, and two replicas ask them of one database. The answer
to the first is kept until the next commit, so that a round costs a third of the time. Whatever is
read inside a writing transaction is read in it.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import GeneratorType
from typing import Any, cast

from oracle.store.database import Store, UnitOfWork

# The clock of the database, and what `Books` moves: asked every time.
_LIVELY = frozenset({"lease", "cursor"})

_Key = tuple[Any, ...]


class Memory:
    """The answers of one database as it is now; `is_off`: everything is read.

    One snapshot is kept open for what is asked first, until somebody writes.
    """

    def __init__(self, store: Store, *, is_off: bool = False) -> None:
        self._store, self._is_off = store, is_off
        self.known: dict[_Key, Any] = {}
        # How often anything but the lease was written.
        self.writings = 0
        self._open = ExitStack()
        self._unit: UnitOfWork | None = None

    @property
    def uow(self) -> UnitOfWork:
        """The snapshot."""
        if self._unit is None:
            self._unit = self._open.enter_context(self._store.read_transaction())
        return self._unit

    @contextmanager
    def read_transaction(self) -> Iterator[UnitOfWork]:
        """Ask what is remembered, and for the rest the snapshot."""
        if self._is_off:
            with self._store.read_transaction() as uow:
                yield uow
            return
        with ExitStack() as opened:
            yield cast(
                "UnitOfWork",
                _UnitOfMemory(self, lambda: opened.enter_context(self._store.read_transaction())),
            )

    @contextmanager
    def transaction(self) -> Iterator[UnitOfWork]:
        """Write; what was known is so no longer, unless nothing but the lease was touched."""
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
        """Know nothing, and keep nothing open."""
        self.known.clear()
        self._unit = None
        self._open.close()


class _Touched:
    """A unit that notes which of its rooms are used."""

    def __init__(self, uow: UnitOfWork) -> None:
        self._unit = uow
        self.touched: set[str] = set()

    def __getattr__(self, name: str) -> Any:
        self.touched.add(name)
        return getattr(self._unit, name)


class _UnitOfMemory:
    """As `UnitOfWork`; rooms that are asked often remember."""

    def __init__(self, memory: Memory, fresh: Callable[[], UnitOfWork]) -> None:
        self._memory, self._fresh = memory, fresh

    def __getattr__(self, name: str) -> Any:
        if name in _LIVELY:
            return getattr(self._fresh(), name)
        return _RoomOfMemory(self._memory, (name,))


class _RoomOfMemory:
    """As a room of the store, or as the outbox, whose rooms lie one deeper."""

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
        question = (path, *map(_frozen, arguments), *sorted(named.items()))
        cached_answers = self._memory.known
        if question not in cached_answers:
            room: Any = self._memory.uow
            for name in path[:-1]:
                room = getattr(room, name)
            answer = getattr(room, path[-1])(*arguments, **named)
            if isinstance(answer, GeneratorType):
                return answer
            cached_answers[question] = answer
        # Whoever gets a list may change it.
        answer = cached_answers[question]
        return answer.copy() if isinstance(answer, list | dict | set) else answer


def _frozen(argument: Any) -> Any:
    return tuple(argument) if isinstance(argument, list | set) else argument
