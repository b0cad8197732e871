"""Injected faults: each replaces an honest result, batch or body by a wrong one.

This module defines what a fault is; the faults themselves are in `log_faults`, `block_faults`,
`message_faults` and `transport_faults`. All accept the limits of `FaultLimits`.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, TypedDict

from devnet.fakechain.requests import FakeRequest, FakeRpcError, Http

# Changes one result: JSON, an error, or an HTTP response in place of the whole one. Results are
# shared, so a change must copy them first.
Change = Callable[[FakeRequest, Any], Any]
# Changes a whole batch: the requests, and the responses that would be sent.
ChangeBatch = Callable[[Sequence[FakeRequest], list[dict[str, Any]]], object]
# Changes the bytes of a body.
ChangeBody = Callable[[bytes], Http]


class FaultLimits(TypedDict, total=False):
    """Limits of a fault; without any, the fault applies to every request.

    `times`: only so many results. `methods`: only these methods, one or several. `for_blocks`:
    only requests about a block from the first to the last. `when`: only requests for which the
    function returns true.
    """

    times: int
    methods: str | Collection[str]
    for_blocks: tuple[int, int]
    when: Callable[[FakeRequest], bool]


@dataclass(slots=True)
class InjectedFault:
    """One fault of an endpoint; `hit_count` counts the results that it changed."""

    name: str
    change: Change | None = None
    change_batch: ChangeBatch | None = None
    change_body: ChangeBody | None = None
    limits: FaultLimits = field(default_factory=FaultLimits)
    hits: int = 0
    # The fault has another effect than changing the result, so unchanged results count as hits.
    is_deed: bool = False
    _lock: Lock = field(default_factory=Lock, repr=False)

    def one(self, asked: FakeRequest, answer: object) -> object:
        """Return the result of one call after the fault; `result` is JSON or a FakeRpcError."""
        if self.change is None or not self._strikes([asked]):
            return answer
        made = self.change(asked, answer)
        if made is answer and not self.is_deed:
            self._take_back()
        return made

    def batch(self, asked: Sequence[FakeRequest], answers: list[dict[str, Any]]) -> object:
        """Return a batch after the fault: a list of responses, one for all, or an HttpResponse."""
        if self.change_batch is None or not self._strikes(asked):
            return answers
        made = self.change_batch(asked, answers)
        if made is answers:
            self._take_back()
        return made

    def body(self, asked: Sequence[FakeRequest], body: bytes) -> Http | None:
        """Return the HTTP response that replaces a body, or None to keep the body."""
        if self.change_body is None or not self._strikes(asked):
            return None
        return self.change_body(body)

    def _strikes(self, asked: Sequence[FakeRequest]) -> bool:
        if not any(self._meets(one) for one in asked):
            return False
        with self._lock:
            if self.hits >= self.limits.get("times", self.hits + 1):
                return False
            self.hits += 1
        return True

    def _take_back(self) -> None:
        with self._lock:
            self.hits -= 1

    def _meets(self, asked: FakeRequest) -> bool:
        methods, blocks = self.limits.get("methods"), self.limits.get("for_blocks")
        if isinstance(methods, str):
            methods = (methods,)
        if methods is not None and asked.method not in methods:
            return False
        if blocks is not None and not _touch(asked.blocks, blocks):
            return False
        when = self.limits.get("when")
        return when is None or when(asked)


def _touch(asked: tuple[int, int] | None, blocks: tuple[int, int]) -> bool:
    return asked is not None and asked[0] <= blocks[1] and blocks[0] <= asked[1]


def only(limits: FaultLimits, *methods: str) -> FaultLimits:
    """Return the limits, restricted to these methods unless they name others."""
    return {"methods": methods, **limits}


def on_success(change: Change) -> Change:
    """Return a change that leaves errors and null results unchanged."""

    def changed(asked: FakeRequest, answer: object) -> object:
        return (
            answer if answer is None or isinstance(answer, FakeRpcError) else change(asked, answer)
        )

    return changed
