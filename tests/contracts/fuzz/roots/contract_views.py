"""All readable state of the contracts in one object, from the chain and from the model."""

from collections.abc import Iterable
from typing import NamedTuple

from tests.contracts.fuzz.evm import Machine, as_address
from tests.contracts.fuzz.roots.state import EXPELLED, NEWCOMER, Kick, Place, State

Words = tuple[int, ...]

# Indexes of words that are read: honest rounds have three, forged ones any of these.
INDEXES = (0, 1, 2, 3, 4, 5, 2**28)
# The addresses of nodes.
NODES = 44


class Head(NamedTuple):
    """In the contract's order."""

    round: int
    as_of: int
    pushed_at: int
    paused_until: int
    held: int
    quorum: int
    kicks_paused: int
    config: int
    round_config: int


class ContractViews(NamedTuple):
    """The views of the contracts as words.

    `roots`: of the requested rounds, None if `rootOf` reverts. `kicks`: of the requested nodes.
    `words`: word and round by index. `seats`: of all nodes, None if unbound.

    `roots`: of the rounds asked for, None if `rootOf` reverts. `kicks`: of the nodes asked for.
    `words`: word and round by index. `seats`: of all nodes, None if unbound.
    """

    head: Head
    limits: Words
    kick_limits: Words
    bucket: Words
    last_root: int
    rules_hash: int
    config: int
    pause: int
    roles: dict[str, int]
    signers: Words
    roots: dict[int, int | None]
    kicks: dict[int, Words]
    words: dict[int, Words]
    open_count: int
    falls: Words
    seats: dict[int, int | None]
    reasons: dict[int, int]

    def kick(self, node: int) -> Kick:
        return Kick(*self.kicks[node])


_ROLES = {
    "admin": "admin",
    "pendingAdmin": "pending_admin",
    "pauser": "pauser",
    "vetoer": "vetoer",
    "pendingVetoer": "pending_vetoer",
    "vetoerOfferedFrom": "offered_from",
    "target": "target",
}


def list_rounds(place: Place, state: State) -> list[int]:
    """Return the rounds whose roots are read: the last ones, and both ends of the kept ones."""
    last = state.round
    newest = range(max(last - 4, 0), last + 2)
    ends = (last - place.kept, last - place.kept + 1, last - place.lag)
    return sorted({*newest, *(round_ for round_ in ends if round_ > 0)})


def read_contracts(
    machine: Machine, place: Place, rounds: Iterable[int], nodes: Iterable[int]
) -> ContractViews:
    """Read the views, with kickouts and roots of these nodes and rounds."""
    oracle, words, challenge = map(as_address, (place.oracle, place.words, place.challenge))

    def view(name: str, *arguments: int) -> Words:
        return machine.view(oracle, name, *arguments)

    return ContractViews(
        head=Head(*view("head")),
        limits=view("limits"),
        kick_limits=view("kickLimits"),
        bucket=view("bucket"),
        last_root=view("lastRoot")[0],
        rules_hash=view("rulesHash")[0],
        config=view("configDigest")[0],
        pause=view("pauseSeconds")[0],
        roles={name: view(name)[0] for name in _ROLES},
        signers=view("signers")[2:],
        roots={round_: _read_one(machine, oracle, "rootOf", round_) for round_ in rounds},
        kicks={node: view("kickOf", node) for node in nodes},
        words={index: _read_word(machine, words, index) for index in INDEXES},
        open_count=machine.view(words, "openCount")[0],
        falls=machine.view(words, "fallsToday"),
        seats={node: _read_one(machine, words, "indexOf", node) for node in range(1, NODES)},
        reasons={round_: machine.view(challenge, "reasonOf", round_)[0] for round_ in rounds},
    )


def _read_one(machine: Machine, contract: str, name: str, argument: int) -> int | None:
    values = machine.read(contract, name, argument)
    return None if values is None else values[0]


def _read_word(machine: Machine, words: str, index: int) -> Words:
    (word,) = machine.view(words, "wordsAt", index, 1)[2:]
    (round_,) = machine.view(words, "roundsAt", index, 1)[2:]
    return word, round_


def read_model(
    place: Place, state: State, rounds: Iterable[int], nodes: Iterable[int]
) -> ContractViews:
    """Return the views that the chain must have for this state."""
    roots = ((round_, state.root_of(place, round_)) for round_ in rounds)
    return ContractViews(
        head=Head(
            *(state.round, state.as_of, state.pushed_at, state.paused_until, state.held),
            *(state.quorum, int(state.kicks_paused), state.config, state.round_config),
        ),
        limits=tuple(state.limits),
        kick_limits=tuple(state.kick_limits),
        bucket=state.in_bucket,
        last_root=state.last_root,
        rules_hash=state.rules_hash,
        config=state.config_digest(place),
        pause=state.pause,
        roles={name: getattr(state, field) for name, field in _ROLES.items()},
        signers=state.signers,
        roots={round_: None if root is None else int.from_bytes(root) for round_, root in roots},
        kicks={node: tuple(state.kick(node)) for node in nodes},
        words={index: state.word(index) for index in INDEXES},
        open_count=state.counts.open,
        falls=(state.counts_today.falls, state.allowed_falls(place)),
        seats={node: state.seats.get(node) for node in range(1, NODES)},
        reasons={round_: state.reasons.get(round_, 0) for round_ in rounds},
    )


def describe_difference(expected: ContractViews, actual: ContractViews) -> str | None:
    """Return which views differ and how, or None if all are equal."""
    parts = [
        f"{name}: {actual_part} instead of {expected_part}"
        for name, actual_part, expected_part in zip(
            ContractViews._fields, actual, expected, strict=True
        )
        if actual_part != expected_part
    ]
    return "; ".join(parts) or None


# --- a consumer's reads of one node ---


def describe_node_difference(
    machine: Machine, place: Place, state: State, node: int
) -> str | None:
    """Return the view of the hot set or the oracle that differs from the model for this node."""
    lane, round_ = state.lane_and_round(node)
    is_out = state.is_expelled(node)
    is_fresh = state.is_fresh and state.round <= round_ + place.max_rounds
    is_selectable = not is_out and (lane != 1 or not is_fresh)
    weight = 0 if is_out else NEWCOMER if not lane or not is_fresh else lane - 1
    qos = 0 if is_out else max(lane - 2, 0)
    age = state.time - state.pushed_at
    is_pending = state.kick(node).state not in {0, EXPELLED, EXPELLED + 1}
    of_words: dict[str, tuple[int, ...]] = {
        "scoreOf": (lane != 0, is_selectable, qos, round_, age),
        "weightOf": (weight,),
        "isSelectable": (is_selectable,),
        "isExpelled": (is_out,),
    }
    of_oracle = {"isExpelled": (is_out,), "isKickPending": (is_pending,)}
    for contract, expected_by_view in ((place.words, of_words), (place.oracle, of_oracle)):
        for name, expected in expected_by_view.items():
            actual = machine.view(as_address(contract), name, node)
            if actual != tuple(map(int, expected)):
                return f"{name} of node {node}: {actual} instead of {expected}"
    return None
