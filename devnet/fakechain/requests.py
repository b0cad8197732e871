"""Requests to a fake endpoint, and responses other than JSON results."""

from dataclasses import dataclass, field
from typing import Any


class FakeRpcError(Exception):
    """The `error` of a JSON-RPC response; `data` is its optional member `data`."""

    def __init__(self, code: int, message: str, more: object = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.more = more

    def written(self) -> dict[str, object]:
        """Return the error as JSON."""
        fault: dict[str, object] = {"code": self.code, "message": self.message}
        return fault if self.more is None else {**fault, "data": self.more}


@dataclass(slots=True)
class Http:
    """A whole HTTP response, for faults below JSON-RPC.

    `content_length` is a Content-Length other than the body's: the connection ends in the middle.
    `is_reset` resets the connection, as a crashed server does.
    """

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    promised: int | None = None
    is_reset: bool = False


@dataclass(frozen=True, slots=True)
class FakeRequest:
    """One call; `block_range` are the first and last block that it is about, if it names any."""

    method: str
    params: tuple[Any, ...]
    blocks: tuple[int, int] | None = None

    @property
    def by_hash(self) -> bool:
        """Whether the call names its block by the hash."""
        if not self.params:
            return False
        named = self.params[0]
        if isinstance(named, dict):
            return "blockHash" in named
        return isinstance(named, str) and len(named) == _HASH_DIGITS


_HASH_DIGITS = 66
