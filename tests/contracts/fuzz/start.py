"""How a walk begins: an oracle with limits by lot, on one of three kinds of chain."""

from dataclasses import dataclass
from random import Random

from tests.contracts.fuzz.evm import (
    ARB_SYS,
    HISTORY,
    HISTORY_CODE,
    Machine,
    Said,
    as_address,
    as_int,
)
from tests.contracts.fuzz.signing import ring
from tests.contracts.fuzz.state import Bucket, Limits, Place, State
from tests.support.evm.artifacts import artifact

ADMIN, PAUSER, VETOER, STRANGER, SPARE = (0xA0 + number for number in range(5))
WEEK = 7 * 24 * 3600


@dataclass(frozen=True, slots=True)
class Start:
    """A walk's first state, and the events that it was said in."""

    machine: Machine
    place: Place
    state: State
    said: tuple[Said, ...]


def limits(chosen: Random, farthest: int) -> Limits:
    """Limits in their ranges, at the edges more often than not."""
    return Limits(
        max_step=chosen.choice((1, 100, 3_000, 3_000, 10_000)),
        max_words=chosen.choice((1, 2, 3, 10)),
        min_interval=chosen.choice((0, 1, 10)),
        anchor_window=chosen.choice((2, 60, 256, farthest, farthest)),
        max_age=chosen.choice((1, 600, 86_400, 86_400)),
        kick_below=chosen.choice((0, 2_000, 6_000, 10_000)),
        veto_delay=chosen.choice((0, 1, 60)),
        kick_rounds=chosen.choice((0, 1, 2)),
        kick_window=chosen.choice((1, 300, 86_400, WEEK)),
        max_kicks=chosen.choice((0, 1, 3, 9, 9)),
        min_active=chosen.choice((0, 2, 5)),
    )


def begun(chosen: Random) -> Start:
    """Deploy network and oracle; nobody has joined."""
    machine = Machine()
    number, time = 20_000, 1_700_000_000
    machine.turn(number, time)
    is_arbitrum, has_history = chosen.random() < 0.15, chosen.random() < 0.85
    if has_history:
        machine.put(HISTORY, HISTORY_CODE)
    if is_arbitrum:
        machine.put(
            ARB_SYS, bytes.fromhex(artifact("testing/ArbSysDouble")["deployedBytecode"][2:])
        )
    count = chosen.choice((1, 2, 3, 5))
    network = machine.deploy("testing/PlainNetwork")
    state = State(
        limits=limits(chosen, 256 if is_arbitrum else 8191),
        bucket=Bucket(chosen.choice((0, 1, 3, 9)), 0, chosen.choice((0, 1, 2)), 600, time),
        admin=ADMIN,
        pauser=PAUSER,
        vetoer=VETOER,
        signers=tuple(key.address for key in ring()[:count]),
        quorum=count // 2 + 1,
        rules=1,
        rules_hash=0xAB << 248,
        number=number,
        time=time,
    )
    state.bucket = state.bucket._replace(left=state.bucket.most)
    oracle = machine.deploy("QoSOracle", _setup(state, network, is_arbitrum=is_arbitrum))
    said = machine.said
    known = machine.names.encoded("setOracle", as_int(oracle))
    assert machine.call(as_address(STRANGER), network, known).error is None
    place = Place(as_int(oracle), as_int(network), is_arbitrum, has_history)
    return Start(machine, place, state, said)


def _setup(state: State, network: str, *, is_arbitrum: bool) -> tuple[object, ...]:
    roles = map(as_address, (state.admin, state.pauser, state.vetoer))
    signers = list(map(as_address, state.signers))
    rules = (state.rules, state.rules_hash.to_bytes(32))
    bucket = (state.bucket.most, state.bucket.per_frame, state.bucket.frame)
    return (network, *roles, signers, state.quorum, *rules, state.limits, *bucket, is_arbitrum)
