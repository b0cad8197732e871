"""What anybody can read of an oracle, in one piece: on the chain, in the model, in the ledger."""

from collections.abc import Iterable
from typing import NamedTuple

from tests.contracts.fuzz.evm import Machine
from tests.contracts.fuzz.state import Place, Slot, State, lanes_of

Words = tuple[int, ...]


class Head(NamedTuple):
    """In the contract's order."""

    round: int
    as_of: int
    pushed_at: int
    paused_until: int
    held: int
    node_count: int
    open_count: int
    quorum: int
    kicks_paused: int
    config: int


class Seen(NamedTuple):
    """Views of the contract as words.

    `roles`: admin, the one offered the role, pauser, vetoer, target. `slots`: of the nodes asked
    for, each with its evidence at the end.
    """

    head: Head
    limits: Words
    kick_limits: Words
    bucket: Words
    last_report: int
    rules_hash: int
    config: int
    pause: int
    roles: Words
    signers: Words
    words: Words
    slots: dict[int, Words]

    @property
    def lanes(self) -> list[int]:
        return [lane for word in self.words for lane in lanes_of(word)]

    def slot(self, node: int) -> Slot:
        return Slot(*self.slots[node][:-1])


_ROLES = ("admin", "pendingAdmin", "pauser", "vetoer", "target")


def on_chain(machine: Machine, place: Place, nodes: Iterable[int]) -> Seen:
    """Read the views; of nodes those of these addresses."""
    oracle = f"0x{place.oracle:040x}"

    def view(name: str, *arguments: int) -> Words:
        return machine.view(oracle, name, *arguments)

    head = Head(*view("head"))
    return Seen(
        head=head,
        limits=view("limits"),
        kick_limits=view("kickLimits"),
        bucket=view("bucket"),
        last_report=view("lastReport")[0],
        rules_hash=view("rulesHash")[0],
        config=view("configDigest")[0],
        pause=view("pauseSeconds")[0],
        roles=sum((view(name) for name in _ROLES), ()),
        signers=view("signers")[2:],
        # One word past the last that can be written.
        words=view("wordsAt", 0, head.node_count // 16 + 2)[2:],
        slots={who: (*view("nodeOf", who), *view("evidenceOf", who)) for who in nodes},
    )


def in_model(place: Place, state: State, nodes: Iterable[int]) -> Seen:
    """What the chain must show for this state."""
    count = len(state.holders)
    clock = (state.pushed_at, state.paused_until, state.held)
    config_fields = (state.quorum, int(state.kicks_paused), state.config)
    return Seen(
        head=Head(state.round, state.as_of, *clock, count, state.open_count, *config_fields),
        limits=tuple(state.limits),
        kick_limits=tuple(state.kick_limits),
        bucket=state.in_bucket,
        last_report=state.last_report,
        rules_hash=state.rules_hash,
        config=state.config_digest(place),
        pause=state.pause,
        roles=(state.admin, state.pending_admin, state.pauser, state.vetoer, state.target),
        signers=state.signers,
        words=tuple(state.words.get(at, 0) for at in range(count // 16 + 2)),
        slots={who: (*state.slot(who), state.evidence.get(who, 0)) for who in nodes},
    )


def difference(expected: Seen, actual: Seen) -> str | None:
    """Say which parts differ, and how; None: none."""
    parts = [
        f"{name}: {actual_part} instead of {expected_part}"
        for name, actual_part, expected_part in zip(Seen._fields, actual, expected, strict=True)
        if actual_part != expected_part
    ]
    return "; ".join(parts) or None
