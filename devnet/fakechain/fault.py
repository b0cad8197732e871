"""Injected faults, which replace an honest result, batch or body.

This module defines what a fault is. The faults themselves are in `log_faults`, `block_faults`,
`message_faults` and `transport_faults`. All of them accept the limits of `FaultLimits`.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, TypedDict

from devnet.fakechain.requests import FakeRequest, FakeRpcError, HttpResponse

# A function that returns the changed result of a call: JSON, an error, or an HTTP response that
# replaces the entire response. It must copy a result before changing it, because results are
# shared.
ResultChange = Callable[[FakeRequest, Any], Any]
# A function that changes an entire batch, given the requests and the responses that would be sent.
BatchChange = Callable[[Sequence[FakeRequest], list[dict[str, Any]]], object]
BodyChange = Callable[[bytes], HttpResponse]


class FaultLimits(TypedDict, total=False):
    """The limits of a fault.

    A fault without limits applies to every request. `times` is the maximum number of results that
    are changed. `methods` names one or several methods. `for_blocks` is the first and last block;
    requests about other blocks are not affected. `when` is a function that returns whether a
    request is affected.
    """

    times: int
    methods: str | Collection[str]
    for_blocks: tuple[int, int]
    when: Callable[[FakeRequest], bool]


@dataclass(slots=True)
class InjectedFault:
    """A fault of an endpoint.

    `hit_count` counts the results that it changed.
    """

    name: str
    change: ResultChange | None = None
    change_batch: BatchChange | None = None
    change_body: BodyChange | None = None
    limits: FaultLimits = field(default_factory=FaultLimits)
    hit_count: int = 0
    # True if a call with an unchanged result counts in `hit_count`, because the fault has another
    # effect than to change results.
    counts_unchanged: bool = False
    _lock: Lock = field(default_factory=Lock, repr=False)

    def apply_to_result(self, request: FakeRequest, result: object) -> object:
        """Apply the fault to the result of a call.

        `result` is JSON or a FakeRpcError.
        """
        if self.change is None or not self._try_count_hit([request]):
            return result
        changed_result = self.change(request, result)
        if changed_result is result and not self.counts_unchanged:
            self._uncount_hit()
        return changed_result

    def apply_to_batch(
        self, requests: Sequence[FakeRequest], responses: list[dict[str, Any]]
    ) -> object:
        """Apply the fault to a batch.

        The result is a list, one response for all calls, or an HttpResponse.
        """
        if self.change_batch is None or not self._try_count_hit(requests):
            return responses
        changed_batch = self.change_batch(requests, responses)
        if changed_batch is responses:
            self._uncount_hit()
        return changed_batch

    def apply_to_body(self, requests: Sequence[FakeRequest], body: bytes) -> HttpResponse | None:
        """Return an HTTP response that replaces the body, or None to keep the body."""
        if self.change_body is None or not self._try_count_hit(requests):
            return None
        return self.change_body(body)

    def _try_count_hit(self, requests: Sequence[FakeRequest]) -> bool:
        if not any(self._matches_limits(request) for request in requests):
            return False
        with self._lock:
            if self.hit_count >= self.limits.get("times", self.hit_count + 1):
                return False
            self.hit_count += 1
        return True

    def _uncount_hit(self) -> None:
        with self._lock:
            self.hit_count -= 1

    def _matches_limits(self, request: FakeRequest) -> bool:
        methods = self.limits.get("methods")
        block_range = self.limits.get("for_blocks")
        if isinstance(methods, str):
            methods = (methods,)
        if methods is not None and request.method not in methods:
            return False
        if block_range is not None and not _ranges_overlap(request.block_range, block_range):
            return False
        condition = self.limits.get("when")
        return condition is None or condition(request)


def _ranges_overlap(requested_range: tuple[int, int] | None, limit_range: tuple[int, int]) -> bool:
    return (
        requested_range is not None
        and requested_range[0] <= limit_range[1]
        and limit_range[0] <= requested_range[1]
    )


def add_default_methods(limits: FaultLimits, *methods: str) -> FaultLimits:
    """Restrict limits without methods to the given `methods`."""
    return {"methods": methods, **limits}


def wrap_change_to_skip_errors(change: ResultChange) -> ResultChange:
    """Wrap `change` in a function that leaves errors and null results unchanged."""

    def change_result(request: FakeRequest, result: object) -> object:
        if result is None or isinstance(result, FakeRpcError):
            return result
        return change(request, result)

    return change_result
