"""The start of a walk: contracts with random settings, on one of three kinds of chain."""

from dataclasses import dataclass, replace
from random import Random
from typing import Any

from tests.contracts.fuzz.chain_kinds import FAR, NEAR
from tests.contracts.fuzz.evm import (
    ARB_SYS,
    HISTORY,
    HISTORY_CODE,
    ConstructorError,
    EmittedEvent,
    Machine,
    as_address,
    as_int,
)
from tests.contracts.fuzz.limits import FOR_EVER
from tests.contracts.fuzz.roots import settings
from tests.contracts.fuzz.roots.state import EXPELLED, Kick, Place, State
from tests.contracts.fuzz.roots.trees import Q_MAX
from tests.contracts.fuzz.signing import ring
from tests.support.evm.artifacts import load_artifact

PAUSER, VETOER, STRANGER, SPARE, PROPOSER = (0xA1 + number for number in range(5))
# Nodes that the previous oracle had expelled, and a target that has no code.
EXPELLED_BEFORE = (7, 8)
WITHOUT_CODE = 0xC0DE
ARTIFACTS = ("roots/QoSRoots", "roots/QoSWords", "roots/QoSChallenge", "TimelockController")


@dataclass(frozen=True, slots=True)
class Start:
    """A walk's first state, the events of the deployment,
    and the errors of invalid deployments.
    """

    machine: Machine
    place: Place
    state: State
    events: tuple[EmittedEvent, ...]
    errors: tuple[str, ...]


def deploy_contracts(chosen: Random) -> Start:
    """Deploy timelock, network, oracle and modules; no node has joined."""
    machine = Machine(*ARTIFACTS)
    number, time = 20_000, 1_700_000_000
    machine.turn(number, time)
    is_arbitrum = chosen.random() < 0.15
    has_history = chosen.random() < 0.85
    if has_history:
        machine.put(HISTORY, HISTORY_CODE)
    if is_arbitrum:
        machine.put(
            ARB_SYS, bytes.fromhex(load_artifact("testing/ArbSysDouble")["deployedBytecode"][2:])
        )
    proposers = [as_address(PROPOSER)]
    timelock = machine.deploy(
        "TimelockController", 0, proposers, [as_address(0)], as_address(SPARE)
    )
    network = machine.deploy("testing/PlainNetwork")
    chain_kind = {"is_arbitrum": is_arbitrum, "has_history": has_history}
    place = _draw_place(chosen, as_int(network), as_int(timelock), **chain_kind)
    state = _draw_state(chosen, place, number, time)
    place = _draw_ends(chosen, place, state)
    errors = [_try_wrong_oracle(chosen, machine, place, state)]
    oracle = machine.deploy("roots/QoSRoots", _setup(state, place))
    events = machine.events
    errors += _try_wrong_modules(machine, oracle, place)
    shares = (place.fall_share, place.big_fall, place.max_rounds)
    words = machine.deploy("roots/QoSWords", oracle, *shares)
    challenge = machine.deploy("roots/QoSChallenge", oracle, Q_MAX)
    place = replace(place, oracle=as_int(oracle), words=as_int(words), challenge=as_int(challenge))
    _send(machine, network, "setOracle", place.oracle)
    canceller = as_int(machine.view(timelock, "CANCELLER_ROLE")[0].to_bytes(32).hex())
    _send(machine, timelock, "grantRole", canceller, place.oracle)
    return Start(machine, place, state, events, tuple(errors))


def _send(machine: Machine, to: str, name: str, *arguments: int) -> None:
    calldata = machine.names.encoded(name, *arguments)
    answer = machine.call(as_address(SPARE), to, calldata)
    assert answer.error is None, answer.error


def _draw_place(
    chosen: Random, network: int, timelock: int, *, is_arbitrum: bool, has_history: bool
) -> Place:
    lag = chosen.choice((0, 1, 2, 2, 3))
    first = settings.draw_limits(chosen, lag, NEAR if is_arbitrum else FAR)
    kick_limits = settings.draw_kick_limits(chosen)
    return Place(
        oracle=0,
        words=0,
        challenge=0,
        network=network,
        timelock=timelock,
        proposer=PROPOSER,
        floors=first,
        tightest=first,
        kick_floors=kick_limits,
        kept=chosen.choice((lag + 1, lag + 2, 8, 256)),
        lag=lag,
        fall_share=chosen.choice((0, 1_000, 5_000, 10_000)),
        big_fall=chosen.choice((0, 1, 2_500, 10_000)),
        max_rounds=chosen.choice((lag + 1, lag + 2, 50)),
        is_arbitrum=is_arbitrum,
        has_history=has_history,
    )


def _draw_ends(chosen: Random, place: Place, state: State) -> Place:
    return replace(
        place,
        floors=settings.draw_floors(chosen, state.limits),
        tightest=settings.draw_end(chosen, place.lag, place.farthest),
        kick_floors=settings.draw_kick_floors(chosen, state.kick_limits),
    )


def _draw_state(chosen: Random, place: Place, number: int, time: int) -> State:
    count = chosen.choice((1, 2, 3, 5))
    targets = (place.network, place.network, place.network, 0, WITHOUT_CODE)
    state = State(
        limits=place.floors,
        kick_limits=place.kick_floors,
        bucket=(place.kick_floors.most, time),
        admin=place.timelock,
        pauser=PAUSER,
        vetoer=VETOER,
        target=chosen.choice(targets),
        signers=tuple(key.address for key in ring()[:count]),
        quorum=count // 2 + 1,
        rules_hash=0xAB << 248,
        number=number,
        time=time,
    )
    lasting = Kick(state=EXPELLED, expelled_until=FOR_EVER)
    state.kicks = dict.fromkeys(EXPELLED_BEFORE, lasting)
    return state


def _setup(state: State, place: Place) -> tuple[Any, ...]:
    roles = map(as_address, (state.admin, state.pauser, state.vetoer, state.target))
    signers = list(map(as_address, state.signers))
    rules = state.rules_hash.to_bytes(32)
    ends = (state.limits, place.floors, place.tightest, state.kick_limits, place.kick_floors)
    expelled = list(map(as_address, EXPELLED_BEFORE))
    counts = (state.quorum, rules, place.kept, place.lag)
    return (*roles, signers, *counts, *ends, expelled, place.is_arbitrum)


def _try_wrong_oracle(chosen: Random, machine: Machine, place: Place, state: State) -> str:
    """Deploy an oracle with one wrong setting, which must fail; return its error."""
    wrong: tuple[tuple[str, State, Place], ...] = (
        ("NotAllowed", replace(state, admin=0), place),
        ("BadSigners", replace(state, quorum=len(state.signers) + 1), place),
        ("BadRules", replace(state, rules_hash=0), place),
        ("BadLimits", state, replace(place, kept=place.lag)),
        ("BadLimits", state, replace(place, tightest=place.tightest._replace(max_age=0))),
        ("BadLimits", replace(state, limits=state.limits._replace(max_age=0)), place),
    )
    expected, wrong_state, wrong_place = chosen.choice(wrong)
    return _refuse(machine, expected, "roots/QoSRoots", _setup(wrong_state, wrong_place))


def _try_wrong_modules(machine: Machine, oracle: str, place: Place) -> list[str]:
    too_few = (place.fall_share, place.big_fall, place.lag)
    return [
        _refuse(machine, "BadSettings", "roots/QoSWords", oracle, *too_few),
        _refuse(machine, "BadMaxScore", "roots/QoSChallenge", oracle, 256),
    ]


def _refuse(machine: Machine, expected: str, name: str, *arguments: Any) -> str:
    """Return the error that a constructor must fail with."""
    try:
        machine.deploy(name, *arguments)
    except ConstructorError as error:
        actual = str(error)
    else:
        actual = "done"
    assert actual == expected, f"{name}: {actual} instead of {expected}"
    return actual
