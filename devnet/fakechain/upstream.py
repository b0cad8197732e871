"""A proxy that forwards requests to a real endpoint and applies injected faults to the results."""

from collections.abc import Sequence
from typing import Any

import msgspec
import requests
from typing_extensions import override

from devnet.fakechain.answering import Answering
from devnet.fakechain.requests import FakeRequest, FakeRpcError, Http

_SECONDS = 30
_CONNECTIONS = 16
_OUT_OF_ORDER = -32603


class Upstream(Answering):
    """Forwards everything to the endpoint at `url`, a batch as one request."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self._url = url
        self._session = requests.Session()
        adapter = requests.adapters.HTTPAdapter(pool_maxsize=_CONNECTIONS, pool_block=True)
        self._session.mount("http://", adapter)

    def close(self) -> None:
        """Close the connections."""
        self._session.close()

    @override
    def answer(self, method: str, params: Sequence[Any]) -> Any:
        (answer,) = self.answers([FakeRequest(method, tuple(params))])
        if isinstance(answer, FakeRpcError):
            raise answer
        return answer

    @override
    def answers(self, asked: Sequence[FakeRequest]) -> list[object]:
        sent = [
            {"jsonrpc": "2.0", "id": place, "method": one.method, "params": one.params}
            for place, one in enumerate(asked)
        ]
        try:
            body = self._session.post(
                self._url, data=msgspec.json.encode(sent), headers=_JSON, timeout=_SECONDS
            ).content
            by_id = {told["id"]: told for told in msgspec.json.decode(body)}
        except (requests.RequestException, msgspec.DecodeError, KeyError, TypeError):
            return [Http(502, b"Bad Gateway", {"Content-Type": "text/plain"})] * len(asked)
        return [_told(by_id.get(place)) for place in range(len(asked))]

    @override
    def blocks_of(self, _method: str, _params: Sequence[Any]) -> tuple[int, int] | None:
        """Return the block range given by numbers; hashes and tags are not resolved."""
        named = _params[0] if _params else None
        if isinstance(named, dict):
            first, last = (_number(named.get(end)) for end in ("fromBlock", "toBlock"))
        else:
            first = last = _number(named)
        return None if first is None or last is None else (first, last)


_JSON = {"Content-Type": "application/json"}
_HASH_DIGITS = 66


def _number(named: object) -> int | None:
    if not isinstance(named, str) or not named.startswith("0x") or len(named) >= _HASH_DIGITS - 24:
        return None
    return int(named, 16)


def _told(answer: dict[str, Any] | None) -> object:
    if answer is None:
        return FakeRpcError(_OUT_OF_ORDER, "no answer from upstream")
    fault = answer.get("error")
    if fault is None:
        return answer.get("result")
    return FakeRpcError(fault["code"], fault["message"], fault.get("data"))
