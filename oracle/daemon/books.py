"""The rooms that ask nobody: the rules and the database, put together from the settings.

What only reads tables needs no endpoint, no contract and no key, and does not import them.
"""

from contextlib import ExitStack
from functools import cached_property
from types import TracebackType
from typing import Self

from oracle.daemon.config.loader import Config
from oracle.daemon.records import configured_rules
from oracle.domain.scoring.rules import Rules
from oracle.errors import TransientError
from oracle.store.database import Store


class Books:
    """The rules and the database; use it in a `with`, which closes what was opened."""

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
    def rules(self) -> Rules:
        """The rule set of `[rules]`."""
        return configured_rules(self.config)

    @cached_property
    def store(self) -> Store:
        """The database, with a schema that fits the code. Raises InputError otherwise."""
        return self._open_store(create=False)

    def require_store(self) -> None:
        """Raise what `store` raises, for who only wants to know that it fits."""
        _ = self.store

    def create_store(self) -> Store:
        """Open the database and make its tables where it is empty."""
        if "store" not in self.__dict__:
            self.__dict__["store"] = self._open_store(create=True)
        return self.store

    @property
    def is_store_open(self) -> bool:
        """Whether the database was opened, so that it has tables."""
        return "store" in self.__dict__

    def opened_store(self) -> Store:
        """Return the database, for who must not open it. Raises TransientError: not open yet."""
        store: Store | None = self.__dict__.get("store")
        if store is None:
            raise TransientError("is empty, and gets its tables when an endpoint answers")
        return store

    def _open_store(self, *, create: bool) -> Store:
        store = Store.open(self.config.database.url, create=create)
        self._opened.callback(store.close)
        return store
