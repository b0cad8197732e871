"""Defines the interface that callers of the transaction manager implement.

There is a `CallKind` for each kind of calls. Kinds are registered by name in `daemon/contexts.py`.
Methods that are called inside a database transaction must not use the network; only `on_refused`
and `can_take_over` may.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from oracle.chain.heads import Heads
from oracle.errors import FatalError
from oracle.store.database import UnitOfWork
from oracle.store.outbox.records import NOOP, REBUILT, CallRequest, Intent, IntentState
from oracle.txmgr.client.preflight import PreflightResult
from oracle.txmgr.client.receipts import Receipt
from oracle.txmgr.client.refusal import Refusal, RefusalAction, RefusalDecoder

# Maximum seconds until a refused call is simulated again. An endpoint states the time at which the
# refusal ends, and this time may be wrong.
MAX_REFUSAL_WAIT_SECONDS = 3600
_STATE_BY_ACTION: Mapping[RefusalAction, IntentState] = {
    RefusalAction.RENEW: IntentState.EXPIRED,
    RefusalAction.DROP: IntentState.SUPERSEDED,
    RefusalAction.HOLD: IntentState.HELD,
}


class CallStage(StrEnum):
    """The stage at which a call is reviewed."""

    # Stage before the call's `not_before`. It only checks whether the call is already over.
    WAIT = "wait"
    # Stage before the call is simulated and priced.
    ADMIT = "admit"
    # Stage in the transaction that assigns the nonce.
    ASSIGN = "assign"
    # Stage before a call with a nonce is signed.
    SIGN = "sign"


@dataclass(frozen=True, slots=True)
class Decision:
    """The outcome of a call's review.

    Create it with `proceed`, `wait_until`, `end` or `replace`. `reason` is (class, text) and shown
    to operators. `not_before` is a block time in unix seconds.
    """

    not_before: int | None = None
    state: IntentState | None = None
    replacement: CallRequest | None = None
    reason: tuple[str, str] = ("", "")

    @classmethod
    def proceed(cls) -> "Decision":
        """Return the decision that the call may proceed."""
        return _PROCEED

    @classmethod
    def wait_until(cls, not_before: int, reason: tuple[str, str]) -> "Decision":
        """Return the decision to release the nonce, and to review the call at a block time.

        `not_before` is in unix seconds.
        """
        return cls(not_before=not_before, reason=reason)

    @classmethod
    def wait_for_next_block(cls, heads: Heads, reason: tuple[str, str]) -> "Decision":
        """Return the decision to review the call again in the next block."""
        return cls.wait_until(heads.latest.time + 1, reason)

    @classmethod
    def end(cls, state: IntentState, reason: str, error_class: str = "") -> "Decision":
        """Return the decision to end a call that was not sent yet.

        If the reason contains details that vary, pass an `error_class` or write the reason as
        `class(details)`, because the class becomes the label of a metric.
        """
        return cls(state=state, reason=(error_class, reason))

    @classmethod
    def replace(cls, replacement: CallRequest, reason: tuple[str, str]) -> "Decision":
        """Return the decision to plan another call instead.

        `reason` is (action, reason).
        """
        return cls(state=IntentState.SUPERSEDED, replacement=replacement, reason=reason)

    @property
    def is_accepted(self) -> bool:
        """Whether the call may proceed."""
        return self.not_before is None and self.state is None


_PROCEED = Decision()


class CallKind(Protocol):
    """The policy of a kind of calls.

    The methods of this class are the defaults. `max_in_flight` is the maximum number of calls that
    have a nonce but no receipt at a time, or None without a limit. `reserve_share` is the
    percentage of the smallest budget that is reserved for other kinds. `is_shared` is whether
    other transmitters plan the same call. `takes_over` is whether a ready call may take the nonce
    of a stuck call (`can_take_over`). If a revert does not contain the time from which the call
    may succeed, the call is simulated again after `retry_seconds`. While the contract is paused,
    the call is simulated every `pause_seconds`.
    """

    name: str
    max_in_flight: int | None = None
    reserve_share: int = 0
    is_shared: bool = False
    takes_over: bool = False
    retry_seconds: int = 1
    pause_seconds: int = 60

    def review_calls(
        self, uow: UnitOfWork, calls: Sequence[Intent], heads: Heads, stage: CallStage
    ) -> Sequence[Decision]:
        """Review the calls in order, and return a decision for each.

        A kind may override this method to query the database once for all calls.
        """
        return [self.review_call(uow, call, heads, stage) for call in calls]

    def review_call(
        self, uow: UnitOfWork, call: Intent, heads: Heads, stage: CallStage
    ) -> Decision:
        """Decide by the indexed state whether the call may proceed."""
        del uow, call, heads, stage
        return Decision.proceed()

    def build_simulation_calldata(self, call: Intent, heads: Heads) -> str:
        """Build the calldata to simulate on the newest block.

        By default it is the call's calldata.
        """
        del heads
        return call.request.calldata

    def find_max_market_fee(self, uow: UnitOfWork, call: Intent, heads: Heads) -> int | None:
        """Return the market fee above which the call waits, in wei per gas.

        The result is None if only the account's cap applies.
        """
        del uow, call, heads
        return None

    def on_refused(self, call: Intent, result: PreflightResult, heads: Heads) -> Decision:
        """Decide about a call after its simulation has failed.

        This method may use the network.

        Raises:
            TransientError: no endpoint answers.
        """
        del call
        return self.decide_on_refusal(result, heads.latest.time)

    def decide_on_refusal(self, result: PreflightResult, now: int) -> Decision:
        """Decide by the contract's decoded revert whether the call waits or ends."""
        refusal = result.refusal
        if refusal is None:
            return Decision.wait_until(now + 1, ("unknown", result.reason))
        if refusal.action is not RefusalAction.WAIT:
            return Decision.end(_STATE_BY_ACTION[refusal.action], result.reason)
        not_before = refusal.not_before or now + self.retry_seconds
        not_before = min(not_before, now + MAX_REFUSAL_WAIT_SECONDS)
        if refusal.is_pause:
            # The call is simulated again soon. The pauser may end even a long pause at any time,
            # and the delayed calls have deadlines.
            not_before = min(not_before, now + self.pause_seconds)
        return Decision.wait_until(not_before, (refusal.name, result.reason))

    def can_take_over(self, stuck_call: Intent, ready_call: Intent) -> bool:
        """Return whether a ready call may take the nonce of a stuck call of this kind.

        Either of the two calls may be mined, so return True only if both outcomes are acceptable.

        Raises:
            TransientError: no endpoint answers.
        """
        del stuck_call, ready_call
        return False

    def build_retry(self, failed_call: Intent, heads: Heads) -> CallRequest | None:
        """Build the call to plan after a call was reverted, or return None to plan none."""
        del failed_call, heads
        return None

    def on_retried(self, uow: UnitOfWork, retry_request: CallRequest) -> None:
        """Update the subject of a call that is retried, in the commit that plans the retry."""
        del uow, retry_request

    def is_urgent(self, uow: UnitOfWork, call: Intent) -> bool:
        """Return whether an unmined call is bumped sooner because other calls wait for it."""
        del uow, call
        return False

    def find_missing_event(self, receipt: Receipt, call: Intent) -> str | None:
        """Return the event that a successful call should have emitted but did not, if any."""
        del receipt, call
        return None

    def on_closed(
        self,
        uow: UnitOfWork,
        call: Intent,
        reason: str | None,
        *,
        replaced_by: Intent | None = None,
    ) -> None:
        """Update the subject of a call that has ended, in the commit that closes the call.

        `reason` is None if the call succeeded. `replaced_by` is the call that took over its nonce,
        if any. Either of the two may still be mined.
        """
        del uow, call, reason, replaced_by


class SimpleCallKind(CallKind):
    """A kind of calls that never become obsolete and emit no expected event.

    No-ops are an example.
    """

    def __init__(self, name: str) -> None:
        self.name = name


class CallRegistry:
    """The kinds of calls of one account, and the decoder for reverts of its contracts."""

    def __init__(self, decode_refusal: RefusalDecoder, *kinds: CallKind) -> None:
        self._decode_refusal = decode_refusal
        self._kinds: dict[str, CallKind] = {}
        for kind in (SimpleCallKind(NOOP), SimpleCallKind(REBUILT), *kinds):
            self.register(kind)

    def register(self, kind: CallKind) -> None:
        """Register a kind of calls, so that its calls can be sent.

        A kind must be registered even if its calls are no longer planned, because a stored call of
        an unknown kind stops the process.

        Raises:
            FatalError: a kind of this name is registered already.
        """
        if kind.name in self._kinds:
            raise FatalError(f"call kind {kind.name} is already registered")
        self._kinds[kind.name] = kind

    @property
    def planned_kinds(self) -> frozenset[str]:
        """The names of all kinds whose calls are planned.

        Calls of the other kinds (no-ops and rebuilt calls) are not planned by a feature.
        """
        return frozenset(self._kinds.keys() - {NOOP, REBUILT})

    def get_kind(self, call: Intent) -> CallKind:
        """Return the kind of a call.

        Raises:
            FatalError: the kind is not registered.
        """
        call_kind = self._kinds.get(call.request.kind)
        if call_kind is None:
            raise FatalError(
                f"outbox intent {call.id}: call kind {call.request.kind} is not registered"
            )
        return call_kind

    def decode_refusal(self, output: str | None) -> Refusal:
        """Decode the output of a contract's revert, given as `0x` hex."""
        return self._decode_refusal(output)
