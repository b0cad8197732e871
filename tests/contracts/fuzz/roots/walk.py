"""A random walk of one oracle of roots: each step is drawn, predicted, sent, and compared."""

from collections import Counter
from copy import deepcopy
from random import Random
from typing import Any

from tests.contracts.fuzz.chain_kinds import FAR, NEAR, true_hash
from tests.contracts.fuzz.evm import GAS, Answer, as_address
from tests.contracts.fuzz.roots.contract_views import (
    NODES,
    ContractViews,
    describe_difference,
    describe_node_difference,
    list_rounds,
    read_contracts,
    read_model,
)
from tests.contracts.fuzz.roots.drawing import StepDrawer
from tests.contracts.fuzz.roots.effects import accept
from tests.contracts.fuzz.roots.invariants import History, Moment, check
from tests.contracts.fuzz.roots.module_invariants import check_modules
from tests.contracts.fuzz.roots.module_refusals import find_refusal
from tests.contracts.fuzz.roots.start import deploy_contracts
from tests.contracts.fuzz.roots.state import State
from tests.contracts.fuzz.roots.step import (
    OF_THE_CHALLENGE,
    OF_THE_NETWORK,
    OF_THE_WORDS,
    SCHEDULE,
    Step,
)
from tests.contracts.fuzz.step import MARK, REORG, WAIT

# Events of the timelock that carry no state of the oracle.
_OF_THE_TIMELOCK = {"CallScheduled", "CallExecuted", "CallSalt", "Cancelled"}
# The errors of a call that has too little gas for the target. If the oracle runs out of gas in a
# forwarded call, the forwarder has no return data to pass on.
_OUT_OF_GAS_ERRORS = {"NotEnoughGas", "halt"}
_FORWARDED_HALT = "unnamed 0x"


class RootsWalk:
    """A walk of this seed and number, the same every time.

    `ends` counts the errors of calls, or `name of the call: done`; `received` counts the events.

    `ends` counts the errors that calls ended with, or `name of the call: done`; `received` the
    events.
    """

    def __init__(self, seed: int, number: int) -> None:
        self._chosen = Random(f"roots {seed}/{number}")  # noqa: S311 - a walk to repeat, no secret
        start = deploy_contracts(self._chosen)
        self._machine, self.place, self.state = start.machine, start.place, start.state
        self._hand = StepDrawer(self._chosen, self.place)
        self._history = History()
        self._marked: tuple[Any, State, History] | None = None
        self._salt = 0
        self.steps: list[Step] = []
        self.ends: Counter[str] = Counter()
        self.met: Counter[str] = Counter(start.errors)
        self.received = Counter(event.name for event in start.events)
        self._last = self._read(())

    @property
    def calls(self) -> int:
        return self.ends.total()

    def run(self, calls: int) -> None:
        """Draw and run steps until this number of calls was made.

        Raises:
            AssertionError: a contract did not do what the model predicts, or an invariant is
                violated.
        """
        while self.calls < calls:
            self.play(self._hand.draw(self.state))

    def play(self, step: Step) -> None:
        """Let time pass, and make the call.

        Raises:
            AssertionError: as `run`.
        """
        self.steps.append(step)
        if step.name == MARK:
            self._marked = (self._machine.mark(), *deepcopy((self.state, self._history)))
        elif step.name == REORG:
            self._revert_to_mark()
        else:
            self._pass_time(step)
            if step.name != WAIT:
                self._call(step)

    def _revert_to_mark(self) -> None:
        """Remove the blocks since the snapshot, as a reorg does."""
        if self._marked is None:
            return
        mark, self.state, self._history = self._marked
        self._marked = None
        self._machine.back(mark)
        self._machine.turn(self.state.number, self.state.time)
        self._last = self._read(())

    def _pass_time(self, step: Step) -> None:
        self.state.number += step.blocks
        self.state.time += step.seconds
        self._machine.turn(self.state.number, self.state.time)
        if step.name == "push" and self.place.has_history and not self.place.is_arbitrum:
            report: Any = step.arguments[0]
            # The chain keeps every block hash; only the requested one is needed.
            if NEAR < self.state.number - report[2] <= FAR:
                self._machine.remember(report[2], true_hash(report[2], is_arbitrum=False))

    def _call(self, step: Step) -> None:
        expected = find_refusal(self.place, self.state, step)
        answer = self._send(step)
        self.ends[answer.error or f"{step.name}: done"] += 1
        self.received.update(event.name for event in answer.events)
        is_starved = step.gas < GAS and (
            answer.error in _OUT_OF_GAS_ERRORS
            or (step.is_forwarded and answer.error == _FORWARDED_HALT)
        )
        assert answer.error == expected or is_starved, f"{answer.error} instead of {expected}"
        if answer.error is None:
            expected_events = accept(self.place, self.state, step)
            assert list(answer.events) == expected_events, (
                f"emitted {answer.events} instead of {expected_events}"
            )
        before = self._last
        after = self._read(_nodes_of(step))
        self._compare(after)
        # A call may be about a node or a round that was not read before.
        before = before._replace(
            kicks={node: before.kicks.get(node, (0,) * 7) for node in after.kicks}
        )
        moment = Moment(self.place, step, answer, before, after, self.state.time)
        if answer.error is None:
            self._history.record(moment)
        check(moment, self._history)
        check_modules(moment, self._history)
        self._last = after

    def _send(self, step: Step) -> Answer:
        names, place = self._machine.names, self.place
        calldata = names.encoded(step.name, *step.arguments)
        to = self._address_of(step)
        if step.is_forwarded:
            calldata = names.encoded("forward", to, calldata)
            to = place.network
        if step.caller == place.timelock:
            answer = self._execute_by_timelock(to, calldata, step.gas)
        else:
            caller = as_address(step.caller)
            answer = self._machine.call(caller, as_address(to), calldata, step.gas)
        events = tuple(event for event in answer.events if event.name not in _OF_THE_TIMELOCK)
        return answer._replace(events=events)

    def _address_of(self, step: Step) -> int:
        place = self.place
        for names, contract in (
            (OF_THE_NETWORK, place.network),
            (OF_THE_WORDS, place.words),
            (OF_THE_CHALLENGE, place.challenge),
            ((SCHEDULE,), place.timelock),
        ):
            if step.name in names:
                return contract
        return place.oracle

    def _execute_by_timelock(self, to: int, calldata: bytes, gas: int) -> Answer:
        """Let the timelock, whose delay is 0 here, schedule and execute a call."""
        machine = self._machine
        timelock = as_address(self.place.timelock)
        self._salt += 1
        operation = (to, 0, calldata, 0, 2**128 + self._salt)
        scheduling = machine.names.encoded("schedule", *operation, 0)
        proposer = as_address(self.place.proposer)
        assert machine.call(proposer, timelock, scheduling).error is None
        return machine.call(proposer, timelock, machine.names.encoded("execute", *operation), gas)

    def _read(self, nodes: tuple[int, ...]) -> ContractViews:
        """Read all views, with the kickouts of all existing and named nodes."""
        all_nodes = sorted({*self.state.kicks, *nodes})
        rounds = list_rounds(self.place, self.state)
        return read_contracts(self._machine, self.place, rounds, all_nodes)

    def _compare(self, after: ContractViews) -> None:
        expected = read_model(self.place, self.state, after.roots, after.kicks)
        difference = describe_difference(expected, after)
        assert difference is None, f"not as the model has it: {difference}"
        network = as_address(self.place.network)
        (active,) = self._machine.view(network, "activeCount")
        assert active == len(self.state.members)
        # The views of one node, a different one each time.
        node = 1 + self.calls % (NODES - 1)
        wrong = describe_node_difference(self._machine, self.place, self.state, node)
        assert wrong is None, wrong


def _nodes_of(step: Step) -> tuple[int, ...]:
    """Return the node that a kickout's call names."""
    argument: Any = step.arguments[0] if step.arguments else 0
    if step.name in {"accuse", "executeKick", "clear"}:
        return (argument[0],)
    return (argument,) if step.name in {"retryKick", "veto", "allow", "readmit"} else ()
