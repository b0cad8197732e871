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
from tests.contracts.fuzz.limits import FOR_EVER, Limits
from tests.contracts.fuzz.settings import floors, kick_limits, limits
from tests.contracts.fuzz.signing import ring
from tests.contracts.fuzz.state import EXPELLED, Place, Slot, State
from tests.support.evm.artifacts import artifact

ADMIN, PAUSER, VETOER, STRANGER, SPARE = (0xA0 + number for number in range(5))
# Whom another oracle had expelled before.
EXPELLED_BEFORE = (7, 8)


@dataclass(frozen=True, slots=True)
class Start:
    """A walk's first state, and the events that it was said in."""

    machine: Machine
    place: Place
    state: State
    said: tuple[Said, ...]


def begun(chosen: Random) -> Start:
    """Deploy network and oracle; nobody has joined."""
    machine = Machine("QoSOracle")
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
    first = limits(chosen, 256 if is_arbitrum else 8191)
    kicks = kick_limits(chosen)
    state = State(
        limits=first,
        kick_limits=kicks,
        bucket=(kicks.most, time),
        admin=ADMIN,
        pauser=PAUSER,
        vetoer=VETOER,
        target=as_int(network),
        signers=tuple(key.address for key in ring()[:count]),
        quorum=count // 2 + 1,
        rules_hash=0xAB << 248,
        number=number,
        time=time,
    )
    lasting = Slot(kick=EXPELLED, expelled_until=FOR_EVER)
    state.slots = dict.fromkeys(EXPELLED_BEFORE, lasting)
    bounds = floors(chosen, first)
    oracle = machine.deploy("QoSOracle", _setup(state, bounds, is_arbitrum=is_arbitrum))
    setup_events = machine.said
    calldata = machine.names.encoded("setOracle", as_int(oracle))
    assert machine.call(as_address(STRANGER), network, calldata).error is None
    place = Place(as_int(oracle), as_int(network), bounds, is_arbitrum, has_history)
    return Start(machine, place, state, setup_events)


def _setup(state: State, bounds: Limits, *, is_arbitrum: bool) -> tuple[object, ...]:
    roles = map(as_address, (state.admin, state.pauser, state.vetoer, state.target))
    signers = list(map(as_address, state.signers))
    expelled = list(map(as_address, EXPELLED_BEFORE))
    rules = state.rules_hash.to_bytes(32)
    limits_ = (state.limits, bounds, state.kick_limits)
    return (*roles, signers, state.quorum, rules, *limits_, expelled, is_arbitrum)
