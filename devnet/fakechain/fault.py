"""A fault: looks at a question and at the honest answer to it, and makes another one of it.

This module says what a fault is; the faults themselves stand by what they spoil: `log_faults`,
`block_faults`, `message_faults`, `transport_faults`. All take the limits of `FaultLimits`.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, TypedDict

from devnet.fakechain.requests import FakeRequest, FakeRpcError, Http

# One answer becomes another: JSON, an error, or an HTTP answer in place of all of it. What it is
# given is shared: copy before changing.
Change = Callable[[FakeRequest, Any], Any]
# The same for a whole batch: the questions, and the answers as they would be sent.
ChangeBatch = Callable[[Sequence[FakeRequest], list[dict[str, Any]]], object]
# The same for the bytes of a body.
ChangeBody = Callable[[bytes], Http]


class FaultLimits(TypedDict, total=False):
    """When a fault strikes: always, unless something here says otherwise.

    `times`: so many answers, then never again. `methods`: only these, one or several.
    `for_blocks`: only questions about one of the blocks first to last. `when`: only where this
    says so.
    """

    times: int
    methods: str | Collection[str]
    for_blocks: tuple[int, int]
    when: Callable[[FakeRequest], bool]


@dataclass(slots=True)
class InjectedFault:
    """One thing that is wrong with an endpoint; `hits` counts the answers that it spoiled."""

    name: str
    change: Change | None = None
    change_batch: ChangeBatch | None = None
    change_body: ChangeBody | None = None
    limits: FaultLimits = field(default_factory=FaultLimits)
    hits: int = 0
    # It does something else than to change the answer: an unchanged one counts as well.
    is_deed: bool = False
    _lock: Lock = field(default_factory=Lock, repr=False)

    def one(self, asked: FakeRequest, answer: object) -> object:
        """Return what is answered to one question; `answer` is JSON or a RpcError."""
        if self.change is None or not self._strikes([asked]):
            return answer
        made = self.change(asked, answer)
        if made is answer and not self.is_deed:
            self._take_back()
        return made

    def batch(self, asked: Sequence[FakeRequest], answers: list[dict[str, Any]]) -> object:
        """Return what is answered to a batch: a list of answers, one for all, or Http."""
        if self.change_batch is None or not self._strikes(asked):
            return answers
        made = self.change_batch(asked, answers)
        if made is answers:
            self._take_back()
        return made

    def body(self, asked: Sequence[FakeRequest], body: bytes) -> Http | None:
        """Return the HTTP answer in place of this body; None lets it pass."""
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
    """Return the limits, with these methods where they name none."""
    return {"methods": methods, **limits}


def on_success(change: Change) -> Change:
    """Leave errors, and null, as they are."""

    def changed(asked: FakeRequest, answer: object) -> object:
        return (
            answer if answer is None or isinstance(answer, FakeRpcError) else change(asked, answer)
        )

    return changed
