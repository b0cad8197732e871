"""What the transaction manager asks of whoever wants a call on chain: one `CallKind` a kind.

It knows its kinds by name alone; `daemon/contexts.py` registers them. What it asks inside a
transaction asks nobody else; only `on_refused` and `may_take_over` may go to the network.
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
from oracle.txmgr.client.receipt_quorum import Receipt
from oracle.txmgr.client.refusal import Action, Refusal, RefusalDecoder

_ENDS: Mapping[Action, IntentState] = {
    Action.RENEW: IntentState.EXPIRED,
    Action.DROP: IntentState.SUPERSEDED,
    Action.HOLD: IntentState.HELD,
}


class CallStage(StrEnum):
    """Where a call is when it is asked whether it is still wanted."""

    # Its time has not come yet: is it over already?
    WAIT = "wait"
    # Before it is tried and priced.
    ADMIT = "admit"
    # In the commit that gives the nonce.
    ASSIGN = "assign"
    # It has a nonce, and is about to be signed.
    SIGN = "sign"


@dataclass(frozen=True, slots=True)
class Decision:
    """What becomes of a call; made by `go`, `wait`, `end` or `replace`.

    `why` is (class, text), for people; `until` in chain time.
    """

    until: int | None = None
    state: IntentState | None = None
    instead: CallRequest | None = None
    why: tuple[str, str] = ("", "")

    @classmethod
    def go(cls) -> "Decision":
        """Nothing stands against it."""
        return _GO

    @classmethod
    def wait(cls, until: int, why: tuple[str, str]) -> "Decision":
        """Look again from a chain time on; a nonce that it has is given back."""
        return cls(until=until, why=why)

    @classmethod
    def wait_a_block(cls, heads: Heads, why: tuple[str, str]) -> "Decision":
        """Look again at the next block."""
        return cls.wait(heads.latest.time + 1, why)

    @classmethod
    def end(cls, state: IntentState, reason: str) -> "Decision":
        """Give it up; nothing of it was sent."""
        return cls(state=state, why=("", reason))

    @classmethod
    def replace(cls, instead: CallRequest, why: tuple[str, str]) -> "Decision":
        """Plan another call in its place; `why` is (what was done, why)."""
        return cls(state=IntentState.SUPERSEDED, instead=instead, why=why)

    @property
    def is_accepted(self) -> bool:
        """Whether nothing stands against it."""
        return self.until is None and self.state is None


_GO = Decision()


class CallKind(Protocol):
    """What a kind of calls answers; whoever does not care inherits the answer that stands here.

    `max_in_flight`: so many have a nonce and no receipt at a time, None: as many as there are.
    `reserve_share`: percent of the smallest budget that is kept from this kind, for others.
    `is_shared`: other transmitters plan the same call. `takes_over`: one that is ready may take
    the nonce of one that waits (`may_take_over`). After a refusal without a time it is tried
    again in `retry_seconds`; a pause of the contract is asked about each `pause_seconds`.
    """

    name: str
    max_in_flight: int | None = None
    reserve_share: int = 0
    is_shared: bool = False
    takes_over: bool = False
    retry_seconds: int = 1
    pause_seconds: int = 60

    def still_wanted_all(
        self, uow: UnitOfWork, calls: Sequence[Intent], heads: Heads, stage: CallStage
    ) -> Sequence[Decision]:
        """Answer `still_wanted` for several of this kind, in their order, by one look."""
        return [self.still_wanted(uow, call, heads, stage) for call in calls]

    def still_wanted(
        self, uow: UnitOfWork, call: Intent, heads: Heads, stage: CallStage
    ) -> Decision:
        """Tell whether it may go on, by what is folded."""
        del uow, call, heads, stage
        return Decision.go()

    def calldata_to_try(self, call: Intent, heads: Heads) -> str:
        """Return what to try on the newest block in its place."""
        del heads
        return call.request.calldata

    def on_refused(self, call: Intent, result: PreflightResult, heads: Heads) -> Decision:
        """Say what becomes of a call that does not work now; ask whom you like.

        Raises:
            TransientError: nobody tells.
        """
        del call
        return self.by_refusal(result, heads.latest.time)

    def by_refusal(self, result: PreflightResult, now: int) -> Decision:
        """Follow the contract's own word: wait, or end."""
        refusal = result.refusal
        if refusal is None:
            return Decision.wait(now + 1, ("unknown", result.reason))
        if refusal.action is not Action.WAIT:
            return Decision.end(_ENDS[refusal.action], result.reason)
        until = refusal.not_before or now + self.retry_seconds
        if refusal.is_pause:
            # A pause of days may be over in a minute, and what it kept back has a deadline.
            until = min(until, now + self.pause_seconds)
        return Decision.wait(until, (refusal.name, result.reason))

    def may_take_over(self, stuck: Intent, ready: Intent) -> bool:
        """Tell whether a ready call may take the nonce of one of its kind that waits for a block.

        Either may still land: do not say so while both could do harm.

        Raises:
            TransientError: nobody tells.
        """
        del stuck, ready
        return False

    def retry(self, failed: Intent, heads: Heads) -> CallRequest | None:
        """Return what to plan in the place of a call that reverted; None: nothing."""
        del failed, heads
        return None

    def on_retried(self, uow: UnitOfWork, again: CallRequest) -> None:
        """Note what follows from a retry, in the commit that plans it."""
        del uow, again

    def is_urgent(self, uow: UnitOfWork, call: Intent) -> bool:
        """Tell whether others wait behind a call that waits for a block: it is bumped sooner."""
        del uow, call
        return False

    def missing_effect(self, receipt: Receipt, call: Intent) -> str | None:
        """Name what a call that succeeded should have done and did not; None: it did it."""
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
        """Note what the end of a call means for what it was for, in the commit that closes it.

        `reason` None: it did what it was for. `replaced_by`: the call that was put on its nonce;
        either may still land.
        """
        del uow, call, reason, replaced_by


@dataclass(frozen=True, slots=True)
class SimpleCallKind(CallKind):
    """A kind that is wanted for ever and asks for no effect, such as a call of nothing."""

    name: str
    max_in_flight: int | None = None


class CallRegistry:
    """The kinds of one account's calls, and who reads what its contracts say."""

    def __init__(self, refusal_of: RefusalDecoder, *kinds: CallKind) -> None:
        self._refusal_of = refusal_of
        self._kinds: dict[str, CallKind] = {}
        for kind in (SimpleCallKind(NOOP), SimpleCallKind(REBUILT), *kinds):
            self.register(kind)

    def register(self, kind: CallKind) -> None:
        """Let calls of this kind be sent: also of one that nobody plans any more.

        What the outbox still holds of a kind that is not registered stops the process.

        Raises:
            FatalError: there is one of this name.
        """
        if kind.name in self._kinds:
            raise FatalError(f"two kinds of calls are named {kind.name}")
        self._kinds[kind.name] = kind

    def kind_of(self, call: Intent) -> CallKind:
        """Return the kind of a call.

        Raises:
            FatalError: nobody has registered it.
        """
        kind = self._kinds.get(call.request.kind)
        if kind is None:
            raise FatalError(
                f"outbox intent {call.id} is a {call.request.kind}, which is not ours to send"
            )
        return kind

    def refusal_of(self, output: str | None) -> Refusal:
        """Read what a contract says when it refuses a call; `output` is `0x` hex."""
        return self._refusal_of(output)
