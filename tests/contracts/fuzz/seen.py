"""What anybody can read of an oracle, in one piece: on the chain, in the model, in the ledger."""

from collections.abc import Iterable
from typing import NamedTuple

from tests.contracts.fuzz.evm import Machine
from tests.contracts.fuzz.state import Kick, Place, State, lanes_of

Words = tuple[int, ...]


class Seen(NamedTuple):
    """Views of the contract as words; head: as `head()` has it; roles: admin, the one offered
    the role, pauser, vetoer."""

    head: Words
    limits: Words
    last_report: int
    rules_hash: int
    roles: Words
    bucket: Words
    signers: Words
    words: Words
    kicks: dict[int, Words]

    @property
    def round(self) -> int:
        return self.head[0]

    @property
    def node_count(self) -> int:
        return self.head[4]

    @property
    def lanes(self) -> list[int]:
        return [lane for word in self.words for lane in lanes_of(word)]

    def live(self) -> dict[int, Kick]:
        """The kickouts that are neither cancelled nor executed."""
        return {
            index: Kick(ready_at, dies_at, round_, is_live=True, evidence=evidence)
            for index, (ready_at, dies_at, round_, is_live, evidence) in self.kicks.items()
            if is_live
        }


def on_chain(machine: Machine, place: Place, kicks: Iterable[int]) -> Seen:
    """Read the views; of kickouts those of these indexes."""
    oracle = f"0x{place.oracle:040x}"

    def view(name: str, *given: int) -> Words:
        return machine.view(oracle, name, *given)

    head = view("head")
    return Seen(
        head=head,
        limits=view("limits"),
        last_report=view("lastReport")[0],
        rules_hash=view("rulesHash")[0],
        roles=sum((view(name) for name in ("admin", "pendingAdmin", "pauser", "vetoer")), ()),
        bucket=view("bucket"),
        signers=view("signers")[2:],
        # One word past the last that can be written.
        words=view("wordsAt", 0, head[4] // 16 + 2)[2:],
        kicks={index: view("kickOf", index) for index in kicks},
    )


def in_model(state: State, kicks: Iterable[int]) -> Seen:
    """What the chain must show for this state."""
    count = len(state.nodes)
    clock = (state.pushed_at, state.paused_until)
    quorum = (state.quorum, len(state.signers), state.rules, state.kicks_paused)
    return Seen(
        head=(state.round, state.as_of, *clock, count, *map(int, quorum)),
        limits=tuple(state.limits),
        last_report=state.last_report,
        rules_hash=state.rules_hash,
        roles=(state.admin, state.pending_admin, state.pauser, state.vetoer),
        bucket=tuple(state.bucket.at(state.time)),
        signers=state.signers,
        words=tuple(state.words.get(at, 0) for at in range(count // 16 + 2)),
        kicks={index: tuple(map(int, state.kick(index))) for index in kicks},
    )


def difference(wanted: Seen, found: Seen) -> str | None:
    """Say which parts differ, and how; None: none."""
    parts = [
        f"{name}: {one} instead of {other}"
        for name, one, other in zip(Seen._fields, found, wanted, strict=True)
        if one != other
    ]
    return "; ".join(parts) or None
