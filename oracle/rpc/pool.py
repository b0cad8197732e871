"""Several endpoints of one chain: the first that is well does the work, or else the next one.

The order of the settings holds; one that failed, or is far slower than another, loses its place
until it has been good for a minute (docs/explanation/endpoints.md#order). Before it is used its
chain is proven: at the start, after every failure, on each switch and every hour.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

import structlog

from oracle.errors import InputError
from oracle.rpc.client import Endpoint
from oracle.rpc.endpoints.checkpoints import Checkpoint
from oracle.rpc.endpoints.endpoint import EndpointRoll, PoolMember
from oracle.rpc.rpc_errors import ErrorKind, RpcError, all_failed
from oracle.telemetry import rpc_metrics as metrics

T = TypeVar("T")

# A question whether it is back, or whose chain it shows, must be answered so soon, in seconds.
_ASKED_SECONDS = 3.0
# It is slow when the other one answers the same so many seconds sooner.
_SLOWER_SECONDS = 2.0
# Where there is nobody else, what failed too often is tried so long after its last failure.
_LEAST_WAIT = 3.0


class EndpointPool:
    """Endpoints in the order of preference; may be used by several threads at once.

    Raises:
        InputError: there is none.
    """

    def __init__(
        self,
        endpoints: Sequence[Endpoint],
        chain_id: int,
        clock: Callable[[], float] = time.monotonic,
        *,
        anchors: Iterable[Checkpoint] = (),
    ) -> None:
        if not endpoints:
            raise InputError("[chain] endpoints: name at least one")
        self.chain_id = chain_id
        self.clock = clock
        self._roll = EndpointRoll(endpoints, clock)
        self._anchors = {anchor.number: anchor for anchor in anchors}
        # Who did the last work.
        self._last: Endpoint | None = None
        self._roll.count_usable()

    def __iter__(self) -> Iterator[Endpoint]:
        return iter(self._roll)

    def __len__(self) -> int:
        return len(self._roll)

    @property
    def roll(self) -> EndpointRoll:
        """Each with its standing, in the order of the settings."""
        return self._roll

    @property
    def anchors(self) -> tuple[Checkpoint, ...]:
        """Blocks that every endpoint must show."""
        return tuple(self._anchors.values())

    def hold(self, anchor: Checkpoint) -> None:
        """Let no endpoint be used from now on that shows another block at this height."""
        if self._anchors.get(anchor.number) != anchor:
            self._anchors[anchor.number] = anchor
            for member in self._roll.members():
                member.standing.unprove()

    def use(
        self,
        work: Callable[[Endpoint], T],
        *,
        only: str | None = None,
        avoid: Iterable[str] = (),
    ) -> T:
        """Let one endpoint do all of `work`, so that its parts come from one view of the chain.

        `only` and `avoid` are names of endpoints.

        Raises:
            TransientError: none could, and why the last one could not.
            InputError: `only` names none; all are on another chain, and were from the start.
        """
        members = self._asked_for(only, set(avoid))
        self._call_back(members)
        failures: list[RpcError] = []
        for member in self._roll.by_preference(members):
            member.health.bear()
            refusal = member.refusal()
            if refusal is None:
                try:
                    return self._work(member, work, failures)
                except RpcError as error:
                    refusal = error
                    self._failed(member, error)
            failures.append(refusal)
        self._roll.count_usable()
        if not failures:
            raise RpcError("every endpoint", ErrorKind.RESTING, "there is no other one to ask")
        if all(failure.kind is ErrorKind.RESTING for failure in failures):
            self._roll.wait_at_most(_LEAST_WAIT)
        failure = all_failed(failures)
        failure.retry_after = self._roll.seconds_left(failures)
        raise failure

    def others(self, than: Endpoint | str) -> list[Endpoint]:
        """Return who may be asked besides `than` (an endpoint or its name), best first.

        Not those that are quarantined or have asked us to wait. Prove each before it is asked.
        """
        name = than if isinstance(than, str) else than.name
        members = [member for member in self._roll.members() if member.endpoint.name != name]
        return [m.endpoint for m in self._roll.by_preference(members) if m.refusal() is None]

    def prove(self, endpoint: Endpoint) -> None:
        """Make sure that the endpoint is on our chain; asks only where that is not known.

        Raises:
            EndpointError: it does not answer, or is on another chain and quarantined for it.
            InputError: all are on another chain, and were from the start.
        """
        member = self._roll.of(endpoint)
        if member.standing.is_proven(self.clock()):
            return
        if member.standing.until_readmitted:
            raise RpcError(endpoint.name, ErrorKind.QUARANTINED, member.standing.quarantined or "")
        # Who waits for an endpoint to come up calls this again and again.
        member.health.wait_at_most(_LEAST_WAIT)
        fault = member.fault_in_chain(self.chain_id, self.anchors, within=None)
        if fault is None:
            member.standing.prove(self.clock())
            return
        member.standing.quarantine(fault, self.clock(), None)
        if all(one.standing.is_a_stranger for one in self._roll.members()):
            raise InputError(f"[chain] endpoints: {endpoint.name} {fault}")
        self.quarantine(endpoint, fault)
        raise RpcError(endpoint.name, ErrorKind.QUARANTINED, fault)

    def recheck(self) -> None:
        """Prove every endpoint anew before it is used again: something does not fit."""
        for member in self._roll.members():
            member.standing.unprove()

    def quarantine(
        self, endpoint: Endpoint | str, reason: str, anchor: Checkpoint | None = None
    ) -> None:
        """Use the endpoint no more, until its chain is found right again, or a restart.

        `anchor` is a block that it must show besides the usual ones before it is trusted.
        """
        member = self._roll.of(endpoint)
        member.standing.quarantine(reason, self.clock(), anchor)
        metrics.QUARANTINED.labels(member.endpoint.label).set(1)
        structlog.get_logger().error(
            "endpoint_quarantined", endpoint=member.endpoint.name, reason=reason
        )
        self._roll.count_usable()

    def quarantined(self) -> dict[str, str]:
        """Return who is not used at all, by name, and why."""
        return {
            member.endpoint.name: member.standing.quarantined
            for member in self._roll.members()
            if member.standing.quarantined is not None
        }

    def states(self) -> dict[str, str]:
        """Return in a word how each endpoint is, by name; of a quarantine also why."""
        now = self.clock()
        return {
            member.endpoint.name: member.standing.in_a_word(now) for member in self._roll.members()
        }

    def note_inconsistent(self, endpoint: Endpoint | str, check: str) -> None:
        """Prefer others for a while: its answers contradict themselves, or another one's."""
        member = self._roll.of(endpoint)
        metrics.INCONSISTENT.labels(member.endpoint.label, check).inc()
        member.standing.ail(self.clock())

    def acquit(self, endpoints: Iterable[Endpoint]) -> None:
        """Take back what was held against them: nobody was any better."""
        for endpoint in endpoints:
            self._roll.of(endpoint).standing.acquit()
        self._roll.count_usable()

    # --- one piece of work ---

    def _asked_for(self, only: str | None, avoid: set[str]) -> list[PoolMember]:
        members = self._roll.members()
        if only is not None and only not in {member.endpoint.name for member in members}:
            names = ", ".join(member.endpoint.name for member in members)
            raise InputError(f"{only} is none of the endpoints: {names}")
        return [
            member
            for member in members
            if member.endpoint.name not in avoid and only in {None, member.endpoint.name}
        ]

    def _work(
        self, member: PoolMember, work: Callable[[Endpoint], T], failures: Sequence[RpcError]
    ) -> T:
        if self._last is not None and self._last is not member.endpoint:
            # On each switch: what it showed before may not be what it shows now.
            member.standing.unprove()
        self.prove(member.endpoint)
        result = work(member.endpoint)
        member.standing.worked()
        if self._last is not None and self._last is not member.endpoint:
            reason = failures[-1].kind.value if failures else "preferred"
            metrics.SWITCHES.labels(member.endpoint.label, reason).inc()
            if failures:
                structlog.get_logger().warning(
                    "endpoint_replaced",
                    endpoint=self._last.name,
                    by=member.endpoint.name,
                    reason=str(failures[-1]),
                )
        self._last = member.endpoint
        self._compare_speed(member)
        self._roll.count_usable()
        return result

    def _failed(self, member: PoolMember, error: RpcError) -> None:
        if member.standing.failed(error, self.clock()):
            self.quarantine(member.endpoint, f"refused us again and again: {error.words}")

    def _compare_speed(self, member: PoolMember) -> None:
        """Take its place from an endpoint that is far slower than another one was."""
        for other in self._roll.members():
            if other is not member and other.refusal() is None:
                slower = member.health.slower_than(other.health)
                if slower > _SLOWER_SECONDS:
                    member.standing.was_slow(self.clock())
                    member.health.forget_speed()
                    structlog.get_logger().warning(
                        "endpoint_slow", endpoint=member.endpoint.name, by_seconds=round(slower, 1)
                    )
                    return

    def _call_back(self, members: Sequence[PoolMember]) -> None:
        """Ask those that lost their place whether they are back, as often as is due."""
        now = self.clock()
        everybody = self._roll.members()
        is_last = all(member.standing.quarantined is not None for member in everybody)
        for member in members:
            standing = member.standing
            if standing.is_to_be_released(now, is_last=is_last):
                self._release(member)
            elif len(members) > 1 and standing.wants_asking(now):
                self._ask_back(member)

    def _ask_back(self, member: PoolMember) -> None:
        began = self.clock()
        try:
            member.health.wait_at_most(0.0)
            fault = member.fault_in_chain(self.chain_id, self.anchors, within=_ASKED_SECONDS)
        except RpcError as error:
            member.standing.ask_later(self.clock())
            self._failed(member, error)
            return
        now = self.clock()
        if fault is not None:
            self.quarantine(member.endpoint, fault)
            return
        member.standing.prove(now)
        member.standing.is_back()
        structlog.get_logger().info("endpoint_answers_again", endpoint=member.endpoint.name)
        member.health.wait_at_most(0.0)
        if now - began > _ASKED_SECONDS:
            member.standing.was_slow(now)

    def _release(self, member: PoolMember) -> None:
        standing = member.standing
        anchors = self.anchors if standing.release is None else (*self.anchors, standing.release)
        try:
            member.health.wait_at_most(0.0)
            fault = member.fault_in_chain(self.chain_id, anchors, within=_ASKED_SECONDS)
        except RpcError as error:
            fault = str(error)
        if fault is not None:
            standing.look_later(self.clock())
            return
        standing.release_now(self.clock())
        metrics.QUARANTINED.labels(member.endpoint.label).set(0)
        structlog.get_logger().warning("endpoint_released", endpoint=member.endpoint.name)
        self._roll.count_usable()
