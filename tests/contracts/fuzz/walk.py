"""One oracle's life: steps by lot, each foretold, carried out, and looked at from all sides."""

from collections import Counter
from copy import deepcopy
from random import Random
from typing import Any

from tests.contracts.fuzz.chain_kinds import FAR, NEAR, true_hash
from tests.contracts.fuzz.data_drawing import NODES
from tests.contracts.fuzz.drawing import Hand
from tests.contracts.fuzz.effects import accept
from tests.contracts.fuzz.evm import GAS, Answer, as_address
from tests.contracts.fuzz.invariants import Kicked, Moment, check
from tests.contracts.fuzz.ledger import Ledger
from tests.contracts.fuzz.refusals import refusals
from tests.contracts.fuzz.seen import Seen, difference, in_model, on_chain
from tests.contracts.fuzz.start import begun
from tests.contracts.fuzz.state import State
from tests.contracts.fuzz.step import MARK, OF_THE_NETWORK, REORG, WAIT, Step

NEWCOMER = 5_000
_OF_A_NODE = {"executeKick", "retryKick", "cancelKick", "readmit"}


class Walk:
    """A walk of this seed and number; the same every time.

    `ends` counts what calls came to: the error's name, or `name of the call: done`; `received` the
    events.
    """

    def __init__(self, seed: int, number: int) -> None:
        self._chosen = Random(f"{seed}/{number}")  # noqa: S311 - the same walk again, no secret
        start = begun(self._chosen)
        self._machine, self.place, self.state = start.machine, start.place, start.state
        self._hand = Hand(self._chosen, self.place)
        self._ledger = Ledger()
        self._ledger.hear(start.said, self.state.time)
        self._kicked = Kicked()
        self._marked: tuple[Any, State, Ledger, Kicked] | None = None
        self.steps: list[Step] = []
        self.ends: Counter[str] = Counter()
        self.met: Counter[str] = Counter()
        self.received: Counter[str] = Counter()
        self._last = self._look(())

    @property
    def calls(self) -> int:
        return sum(self.ends.values())

    def run(self, calls: int) -> None:
        """Draw and play steps until so many calls were made.

        Raises:
            AssertionError: the contract did what it must not, or did not what it must.
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
            saved = deepcopy((self.state, self._ledger, self._kicked))
            self._marked = (self._machine.mark(), *saved)
        elif step.name == REORG:
            self._back()
        else:
            self._turn(step)
            if step.name != WAIT:
                self._call(step)

    def _back(self) -> None:
        """The blocks since the mark are orphans."""
        if self._marked is None:
            return
        mark, self.state, self._ledger, self._kicked = self._marked
        self._marked = None
        self._machine.back(mark)
        self._machine.turn(self.state.number, self.state.time)
        self._last = self._look(())

    def _turn(self, step: Step) -> None:
        self.state.number += step.blocks
        self.state.time += step.seconds
        self._machine.turn(self.state.number, self.state.time)
        if step.name == "push" and self.place.has_history and not self.place.is_arbitrum:
            as_of = step.words[2]
            # The chain remembers every block; the one that is asked for will do.
            if NEAR < self.state.number - as_of <= FAR:
                self._machine.remember(as_of, true_hash(as_of, is_arbitrum=False))

    def _call(self, step: Step) -> None:
        reasons = refusals(self.place, self.state, step)
        answer = self._send(step)
        self.ends[answer.error or f"{step.name}: done"] += 1
        self.received.update(event.name for event in answer.said)
        is_starved = step.gas < GAS and answer.error is not None
        if not is_starved:
            is_told = answer.error in reasons if reasons else answer.error is None
            assert is_told, f"{answer.error} instead of {reasons}"
        if answer.error is None:
            expected_events = accept(self.place, self.state, step)
            assert list(answer.said) == expected_events, (
                f"said {answer.said} instead of {expected_events}"
            )
        before, after = self._last, self._look(_nodes_in(step))
        self._ledger.hear(answer.said, self.state.time, step)
        self._compare(after)
        moment = Moment(step, answer, before, after, self.state.time)
        self._kicked.count(moment)
        check(moment, self._ledger)
        self._last = after

    def _send(self, step: Step) -> Answer:
        names, place = self._machine.names, self.place
        calldata = names.encoded(step.name, *step.arguments)
        to = place.network if step.name in OF_THE_NETWORK else place.oracle
        if step.is_forwarded:
            calldata, to = names.encoded("forward", place.oracle, calldata), place.network
        return self._machine.call(as_address(step.caller), as_address(to), calldata, step.gas)

    def _look(self, nodes: tuple[int, ...]) -> Seen:
        """At everything, and at the nodes that there are or that were asked for."""
        return on_chain(self._machine, self.place, sorted({*self.state.slots, *nodes}))

    def _compare(self, after: Seen) -> None:
        for name, expected in (
            ("the model", in_model(self.place, self.state, after.slots)),
            ("the events", self._ledger.seen(after.slots)),
        ):
            wrong = difference(expected, after)
            assert wrong is None, f"not as {name} has it: {wrong}"
        (active,) = self._machine.view(as_address(self.place.network), "activeCount")
        assert active == len(self.state.members)
        self._compare_node(self.calls % NODES)

    def _compare_node(self, node: int) -> None:
        """One node's own views, another one each time."""
        state, oracle = self.state, as_address(self.place.oracle)
        lane, age = state.lane_of(node), state.time - state.pushed_at
        is_out, is_fresh = state.is_expelled(node), state.is_fresh
        is_selectable = not is_out and (lane != 1 or not is_fresh)
        fresh_lane = lane if is_fresh else 0
        weight = 0 if is_out else fresh_lane - 1 if fresh_lane else NEWCOMER
        qos = 0 if is_out else max(lane - 2, 0)
        expected_by_view = {
            "scoreOf": (lane != 0, is_selectable, qos, state.round, age),
            "weightOf": (weight,),
            "isSelectable": (is_selectable,),
            "isExpelled": (is_out,),
            "isKickPending": (state.is_pending(node),),
        }
        for name, expected in expected_by_view.items():
            actual = self._machine.view(oracle, name, node)
            assert actual == tuple(map(int, expected)), f"{name} of {node}: {actual}"
        if lane:
            index = state.slot(node).index_plus_one - 1
            assert state.holders[index] == node
            assert self._machine.view(oracle, "indexOf", node) == (index,)
            assert self._machine.view(oracle, "laneAt", index) == (lane,)


def _nodes_in(step: Step) -> tuple[int, ...]:
    """Whom a call is about; a report's are in the model."""
    if step.name == "proposeKick":
        return step.words[2:3]
    return step.words[:1] if step.name in _OF_A_NODE else ()
