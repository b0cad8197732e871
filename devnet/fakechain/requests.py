"""What is asked of an endpoint of ours, and the answers that are no JSON results."""

from dataclasses import dataclass, field
from typing import Any


class FakeRpcError(Exception):
    """The `error` of a JSON-RPC answer; `more` is its member `data`, where there is one."""

    def __init__(self, code: int, message: str, more: object = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.more = more

    def written(self) -> dict[str, object]:
        """Return it as it is sent."""
        fault: dict[str, object] = {"code": self.code, "message": self.message}
        return fault if self.more is None else {**fault, "data": self.more}


@dataclass(slots=True)
class Http:
    """A whole HTTP answer, for what is wrong below JSON-RPC.

    `promised` is a Content-Length other than that of the body: the connection ends in the
    middle. `is_reset` ends it hard, as a crashed server does.
    """

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    promised: int | None = None
    is_reset: bool = False


@dataclass(frozen=True, slots=True)
class FakeRequest:
    """One question; `blocks` are the first and last that it is about, where that can be said."""

    method: str
    params: tuple[Any, ...]
    blocks: tuple[int, int] | None = None

    @property
    def by_hash(self) -> bool:
        """Whether it names its block by the hash."""
        if not self.params:
            return False
        named = self.params[0]
        if isinstance(named, dict):
            return "blockHash" in named
        return isinstance(named, str) and len(named) == _HASH_DIGITS


_HASH_DIGITS = 66
