"""Requests to a fake endpoint, and responses that are not JSON results."""

from dataclasses import dataclass, field
from typing import Any

# Length of `0x` and 64 hex digits.
HASH_LENGTH = 66


class FakeRpcError(Exception):
    """The member `error` of a JSON-RPC response.

    `data` is the optional member of this name.
    """

    def __init__(self, code: int, message: str, data: object = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data

    def to_json(self) -> dict[str, object]:
        error: dict[str, object] = {"code": self.code, "message": self.message}
        return error if self.data is None else {**error, "data": self.data}


@dataclass(slots=True)
class HttpResponse:
    """A complete HTTP response, for faults below JSON-RPC.

    If `content_length` is set, it is sent instead of the body's length, and the connection is
    closed after the body. If `is_reset` is set, the connection is reset, as by a crashed server.
    """

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    content_length: int | None = None
    is_reset: bool = False


@dataclass(frozen=True, slots=True)
class FakeRequest:
    """A call to a fake endpoint.

    `block_range` is the first and last block that the call names, or None.
    """

    method: str
    params: tuple[Any, ...]
    block_range: tuple[int, int] | None = None

    @property
    def is_by_block_hash(self) -> bool:
        """Whether the call names its block by hash."""
        if not self.params:
            return False
        block_argument = self.params[0]
        if isinstance(block_argument, dict):
            return "blockHash" in block_argument
        return isinstance(block_argument, str) and len(block_argument) == HASH_LENGTH
