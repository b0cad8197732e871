"""Puts the floors together from one configuration; the only module that knows every room.

A room is opened when it is first asked for, and imported then: `qos-oracle status` need not wait
for web3, which takes a second to import.
"""

from contextlib import ExitStack
from functools import cached_property
from types import TracebackType
from typing import TYPE_CHECKING, Self

from oracle.config import Config

if TYPE_CHECKING:
    from oracle.chain.reader import Reader
    from oracle.chain.source import Source
    from oracle.domain.rules import Rules
    from oracle.publisher.publisher import Publisher
    from oracle.services.folding import Folder
    from oracle.store.unit import Store


class App:
    """Every room of one daemon; use it in a `with`, which closes what was opened."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self._opened = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close every room that was opened, the last one first."""
        self._opened.close()

    @cached_property
    def rules(self) -> "Rules":
        """The rule set of `[rules]`. Raises InputError: there is none of that name."""
        raise NotImplementedError

    @cached_property
    def store(self) -> "Store":
        """The database, with a schema that fits the code. Raises InputError otherwise."""
        raise NotImplementedError

    @cached_property
    def chain(self) -> "Source":
        """The chain, checked against the chain id of the configuration (InputError)."""
        raise NotImplementedError

    @cached_property
    def reader(self) -> "Reader":
        """What turns logs into events, for `[network]` and `[oracle]`. Asks no endpoint."""
        raise NotImplementedError

    @cached_property
    def folder(self) -> "Folder":
        """The fold over the store, with its working set."""
        raise NotImplementedError

    @cached_property
    def publisher(self) -> "Publisher":
        """What signs and sends. Raises InputError: no oracle contract or keys configured."""
        raise NotImplementedError
