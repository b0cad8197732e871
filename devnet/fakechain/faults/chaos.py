"""An endpoint with moods: honest most of the time, then wrong in one way for some requests.

The moods are drawn from a seed. Faults after which a client must stop using the endpoint are left
out: another chain, a rejected key, invalid blooms and roots.
"""

from collections.abc import Callable, Mapping
from random import Random
from threading import Event, Lock
from typing import Any

import msgspec
from typing_extensions import override

from devnet.fakechain.fault import InjectedFault, on_success
from devnet.fakechain.faults import (
    block_faults as blocks,
    log_faults as logs,
    message_faults as messages,
    transport_faults as transport,
)
from devnet.fakechain.requests import FakeRequest, Http
from devnet.fakechain.upstream import Upstream
from oracle.rpc.provider_dialects import RefusedFeature

# The probability that a mood begins at a request, and the maximum requests that a mood lasts.
RATE = 0.02
LONGEST_MOOD = 6
_LAG_BLOCKS = 3
_LATE_SECONDS = 1.5

Hear = Callable[[str], None]


class Chaos(Upstream):
    """The endpoint at `url` with moods drawn from `seed`; `on_mood` is called when one begins."""

    def __init__(self, url: str, seed: int, hear: Hear = lambda _mood: None) -> None:
        super().__init__(url)
        self._random = Random(seed)  # noqa: S311 - chance, not a secret
        self._lock = Lock()
        self._moods = [*_always(self).items()]
        self._mood: tuple[str, InjectedFault] | None = None
        self._left = 0
        self._hear = hear
        # Number of times that each mood began.
        self.moods: dict[str, int] = {}
        # No new faults once set.
        self.is_calm = False

    @override
    def striking(self) -> tuple[InjectedFault, ...]:
        with self._lock:
            if self.is_calm:
                return ()
            if self._left == 0:
                if self._random.random() >= RATE:
                    return ()
                self._mood = self._random.choice(self._moods)
                self._left = self._random.randint(1, LONGEST_MOOD)
                self.moods[self._mood[0]] = self.moods.get(self._mood[0], 0) + 1
                self._hear(f"{self._mood[0]}, {self._left} requests")
            self._left -= 1
            return () if self._mood is None else (self._mood[1],)


def _always(upstream: Upstream) -> Mapping[str, InjectedFault]:
    """Return the fault of each mood."""
    return _of_logs() | _of_heads(upstream) | _told() | _of_transport()


def _of_logs() -> dict[str, InjectedFault]:
    return {
        "leaves all logs of a range out": logs.omits_in_ranges(),
        "leaves a log of a range out": logs.omits_one(0, when=lambda asked: not asked.by_hash),
        "leaves a log out wherever": logs.omits_one(0),
        "marks logs as removed": logs.removed(),
        "gives pending logs": logs.pending(),
        "moves logs to other blocks": logs.of_blocks_moved(1_000),
        "gives a log twice": logs.doubled(),
        "gives two logs for one place": logs.contradicted(),
        "gives logs backwards": logs.shuffled_logs(),
        "writes hex in capitals": logs.upper_case(),
        "writes half a byte": logs.odd_hex(),
        "leaves a receipt out": blocks.omits_receipts(0),
    }


def _of_heads(upstream: Upstream) -> dict[str, InjectedFault]:
    return {
        f"lags {_LAG_BLOCKS} blocks behind": _lagging(upstream, _LAG_BLOCKS),
        "answers null for blocks": blocks.nothing(),
        "gives headers that do not link": blocks.other_parent(),
        "knows no finalized block": blocks.result(
            None, methods="eth_getBlockByNumber", when=lambda asked: asked.params[0] in _TAGS
        ),
    }


_TAGS = {"safe", "finalized"}


def _told() -> dict[str, InjectedFault]:
    return {
        "throttles with -32005": messages.fails(messages.QUOTA),
        "fails in a foreign language": messages.fails(
            messages.FOREIGN_WORDS, methods="eth_getLogs"
        ),
        "refuses more than 2 blocks": messages.limited_range(2),
        "refuses more than 1 log": messages.limited_results(1),
        "does not know blocks yet": messages.fails(
            messages.Words(-32000, "header not found"),
            methods=["eth_getLogs", "eth_getBlockByNumber"],
        ),
        "has no receipts": messages.fails(
            messages.provider_messages(RefusedFeature.METHOD)[0], methods="eth_getBlockReceipts"
        ),
    }


def _of_transport() -> dict[str, InjectedFault]:
    return {
        "answers 429": transport.throttled(1),
        "answers 503": transport.status(503, b"Service Unavailable"),
        "shows a web page": transport.web_page(),
        "answers nothing": transport.empty_body(),
        "hangs up in the middle": transport.cut_off(),
        "resets the connection": transport.reset(),
        "sends half of the JSON": transport.truncated(),
        "sends broken gzip": transport.broken_gzip(),
        "shuffles batches": transport.shuffled_batch(),
        "loses an answer of a batch": transport.batch_without(0),
        "fails one of a batch": transport.batch_with_error(0),
        "refuses batches": transport.refused_batch(),
        f"is {_LATE_SECONDS} s late": _late(_LATE_SECONDS),
    }


def _lagging(upstream: Upstream, behind: int) -> InjectedFault:
    """Return a fault: the chain as it was some blocks ago."""

    def changed(asked: FakeRequest, answer: Any) -> object:  # noqa: ANN401 - JSON
        if asked.method == "eth_blockNumber":
            return hex(max(0, int(answer, 16) - behind))
        if asked.method != "eth_getBlockByNumber":
            return answer
        head = int(str(upstream.answer("eth_blockNumber", [])), 16) - behind
        if asked.params[0] == "latest":
            return upstream.answer(asked.method, [hex(max(0, head)), *asked.params[1:]])
        return answer if int(answer["number"], 16) <= head else None

    return InjectedFault("lagging", on_success(changed))


def _late(seconds: float) -> InjectedFault:
    """Return a fault: the response is delayed by some seconds of the wall clock."""

    def changed(body: bytes) -> Http:
        Event().wait(seconds)
        return Http(body=body)

    return transport.spoiled_body("late", changed)


def told(moods: Mapping[str, int]) -> str:
    """Return the number of times each mood began, as a line of JSON."""
    return msgspec.json.encode(dict(sorted(moods.items()))).decode()
