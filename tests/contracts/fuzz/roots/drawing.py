"""Draws the next call: every function of the contracts, by authorised and unauthorised callers."""

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

from tests.contracts.fuzz.limits import DAY
from tests.contracts.fuzz.roots import settings
from tests.contracts.fuzz.roots.contract_views import NODES
from tests.contracts.fuzz.roots.proof_drawing import ProofDrawer
from tests.contracts.fuzz.roots.report_drawing import draw_push
from tests.contracts.fuzz.roots.start import PAUSER, PROPOSER, SPARE, STRANGER, VETOER
from tests.contracts.fuzz.roots.state import ACCUSED, EXPELLED, REFUSED, Place, State
from tests.contracts.fuzz.roots.step import OF_THE_NETWORK, SCHEDULE, Step
from tests.contracts.fuzz.signing import ring
from tests.contracts.fuzz.step import MARK, REORG, WAIT

WEEK = 7 * DAY
WHY = 0xE1 << 248
# Old steps are repeated occasionally; this many are kept.
REMEMBERED = 40


class StepDrawer:
    """Draws the next step for a state; earlier steps may be repeated."""

    def __init__(self, chosen: Random, place: Place) -> None:
        self._chosen = chosen
        self._place = place
        self._proofs = ProofDrawer(chosen, place)
        self._drawn: list[Step] = []
        self._salt = 0
        # A strike needs a pause, which comes before it.
        self._next: Callable[[StepDrawer, State], Step] | None = None

    def draw(self, state: State) -> Step:
        if self._drawn and self._chosen.random() < 0.03:
            return replace(self._chosen.choice(self._drawn), blocks=1, seconds=1)
        action = self._next or self._chosen.choices(*_WEIGHED)[0]
        self._next = None
        blocks, seconds = self._pass_time(state)
        if action is StepDrawer.execute:
            seconds = self._wait_until_ready(state, seconds)
        elif action is StepDrawer.accept:
            seconds = self._wait_for_offer(state, seconds)
        later = replace(state, number=state.number + blocks, time=state.time + seconds)
        step = replace(action(self, later), blocks=blocks, seconds=seconds)
        if not step.caller:
            step = replace(step, caller=self._chosen.choice(self._everybody))
        if step.name not in {*OF_THE_NETWORK, SCHEDULE}:
            self._drawn = [*self._drawn[-REMEMBERED:], step]
        return step

    @property
    def _everybody(self) -> tuple[int, ...]:
        return (PAUSER, VETOER, STRANGER, SPARE, PROPOSER, ring()[0].address)

    def _pass_time(self, state: State) -> tuple[int, int]:
        some, limits = self._chosen, state.limits
        blocks = some.choices((1, 2, 10, 300, 5_000), (60, 20, 10, 6, 2))[0]
        pause = state.paused_until - state.time
        waits = (limits.veto_delay, limits.max_age, limits.max_age + 1, state.kick_limits.frame)
        far = (*waits, WEEK, DAY, DAY, 2 * DAY, pause, pause + state.pause)
        near = (0, 1, limits.min_interval, limits.min_interval, limits.veto_delay)
        return blocks, max(some.choice(near if some.random() < 0.97 else far), 0)

    def _wait_until_ready(self, state: State, seconds: int) -> int:
        """Return mostly the seconds until a kickout can be executed, or one more or less."""
        ready_times = [kick.ready_at for kick in state.kicks.values() if kick.state == ACCUSED]
        if not ready_times or self._chosen.random() < 0.4:
            return seconds
        edge = self._chosen.choice(ready_times) + self._chosen.choice((-1, 0, 0, 1))
        return max(edge - state.time, 0)

    def _wait_for_offer(self, state: State, seconds: int) -> int:
        if not state.pending_vetoer or self._chosen.random() < 0.5:
            return seconds
        return max(state.offered_from - state.time + self._chosen.choice((-1, 0, 1)), 0)

    def _by(self, holder: int) -> int:
        """Return mostly the account that holds the role."""
        is_holder = holder and self._chosen.random() < 0.8
        return holder if is_holder else self._chosen.choice(self._everybody)

    # --- rounds, proofs and nodes ---

    def push(self, later: State) -> Step:
        step = draw_push(self._chosen, self._place, later)
        return replace(step, is_forwarded=self._chosen.random() < 0.1)

    def strike(self, later: State) -> Step:
        if later.time >= later.paused_until and self._chosen.random() < 0.8:
            self._next = StepDrawer.strike
            return Step("pauseFor", later.pauser or STRANGER, (600,))
        last, kept = later.round, self._place.kept
        first = self._chosen.choice((last, last, last - 1, last - 2, 0, last - kept, last + 1))
        return Step("strike", self._by(later.pauser), (max(first, 0),))

    def accuse(self, later: State) -> Step:
        return self._proofs.accuse(later)

    def execute(self, later: State) -> Step:
        return self._proofs.execute(later)

    def clear(self, later: State) -> Step:
        return self._proofs.clear(later)

    def bring(self, later: State) -> Step:
        return self._proofs.bring(later)

    def bind(self, later: State) -> Step:
        return self._proofs.bind(later)

    def challenge(self, later: State) -> Step:
        return self._proofs.challenge(later)

    def retry(self, later: State) -> Step:
        nodes = _nodes_in(later, REFUSED) or _nodes_in(later, EXPELLED)
        is_forwarded = self._chosen.random() < 0.1
        return Step("retryKick", arguments=(self._node(nodes),), is_forwarded=is_forwarded)

    def veto(self, later: State) -> Step:
        arguments = (self._node(_nodes_in(later, ACCUSED)), WHY)
        return Step("veto", self._by(later.vetoer), arguments)

    def allow(self, later: State) -> Step:
        """Mostly allow an interval that a held leaf states."""
        some = self._chosen
        contents = later.contents.get(later.round)
        held = [leaf for leaf in contents.leaves if leaf.due_since] if contents else []
        arguments = (self._node([]), 0)
        if held:
            leaf = some.choice(held)
            arguments = (leaf.node, some.choice((leaf.due_since, leaf.due_since, 0, 1)))
        return Step("allow", self._by(later.vetoer), arguments)

    def readmit(self, later: State) -> Step:
        expelled = _nodes_in(later, EXPELLED) + _nodes_in(later, REFUSED)
        return Step("readmit", self._by(later.admin), (self._node(expelled),))

    def _node(self, candidates: list[int]) -> int:
        if candidates and self._chosen.random() < 0.9:
            return self._chosen.choice(candidates)
        return self._chosen.randrange(1, NODES)

    def join(self, later: State) -> Step:
        outside = [node for node in range(1, NODES) if node not in later.members]
        return self._of_network("join", outside)

    def quit(self, later: State) -> Step:
        return self._of_network("quit", sorted(later.members))

    def _of_network(self, name: str, nodes: list[int]) -> Step:
        return Step(name, arguments=(self._chosen.choice(nodes),)) if nodes else Step(WAIT)

    def refuse(self, later: State) -> Step:
        refuses = not later.refuses and self._chosen.random() < 0.4
        return Step("setRefuses", arguments=(int(refuses),))

    # --- signers and limits ---

    def signers(self, later: State) -> Step:
        some = self._chosen
        count = some.randint(1, 7)
        wanted = [key.address for key in some.sample(ring(), count)]
        needed = some.choice((count // 2 + 1, count // 2 + 1, count, count // 2, count + 1))
        if some.random() < 0.2:
            wanted = some.choice(([], [*wanted, 0], [*wanted, wanted[0]], list(range(1, 257))))
            needed = len(wanted) % 256
        return Step("setSigners", self._by(later.admin), (wanted, needed))

    def drop(self, later: State) -> Step:
        candidates = (*later.signers, ring()[-1].address, 0)
        arguments = (self._chosen.choice(candidates),)
        return Step("dropSigner", self._by(later.pauser), arguments)

    def limits(self, later: State) -> Step:
        place = self._place
        wanted = settings.draw_limits(self._chosen, place.lag, place.farthest)
        if self._chosen.random() < 0.3:
            wanted = settings.draw_wrong_limits(self._chosen, wanted, place.lag, place.farthest)
        return Step("setLimits", self._by(later.admin), (tuple(wanted),))

    def tighten(self, later: State) -> Step:
        wanted = settings.draw_tighter(self._chosen, later.limits, self._place.tightest)
        return Step("tightenLimits", self._by(later.pauser), (tuple(wanted),))

    def kick_limits(self, later: State) -> Step:
        wanted = settings.draw_kick_limits(self._chosen)
        if self._chosen.random() < 0.3:
            wanted = settings.draw_wrong_kick_limits(self._chosen, wanted)
        return Step("setKickLimits", self._by(later.admin), (tuple(wanted),))

    def rules(self, later: State) -> Step:
        arguments = (self._chosen.choice((0, WHY, WHY + 1)),)
        return Step("setRules", self._by(later.admin), arguments)

    def target(self, later: State) -> Step:
        place = self._place
        usual = (place.network, place.network, place.network)
        to = self._chosen.choice((*usual, place.oracle, place.timelock, 0, STRANGER))
        return Step("setTarget", self._by(later.admin), (to,))

    # --- roles ---

    def role(self, later: State) -> Step:
        name = self._chosen.choice(("setPauser", "setVetoer", "transferAdmin", "transferAdmin"))
        # Mostly the usual holder: a walk without a pauser has no pause.
        usual = {"setPauser": PAUSER, "setVetoer": VETOER, "transferAdmin": SPARE}[name]
        to = self._chosen.choice((usual, usual, usual, 0, STRANGER))
        if name == "transferAdmin" and later.admin == SPARE:
            to = self._place.timelock
        return Step(name, self._by(later.admin), (to,))

    def accept(self, later: State) -> Step:
        if self._chosen.random() < 0.5:
            return Step("acceptAdmin", self._by(later.pending_admin))
        return Step("acceptVetoer", self._by(later.pending_vetoer))

    def offer(self, later: State) -> Step:
        if self._chosen.random() < 0.35:
            holder = self._chosen.choice((later.admin, later.pauser))
            return Step("withdrawVetoerOffer", self._by(holder))
        to = self._chosen.choice((SPARE, VETOER, STRANGER, 0))
        return Step("offerVetoer", self._by(PROPOSER), (to,))

    def schedule(self, _: State) -> Step:
        self._salt += 1
        arguments = (self._place.network, 0, b"", 0, self._salt, 0)
        return Step(SCHEDULE, PROPOSER, arguments)

    def cancel(self, later: State) -> Step:
        scheduled: list[Any] = sorted(later.scheduled)
        arguments = (self._chosen.choice((*scheduled, *scheduled, WHY)),)
        return Step("cancelOperation", self._by(later.vetoer), arguments)

    def pause(self, later: State) -> Step:
        seconds = self._chosen.choice((1, 30, 60, 600, WEEK, 0, WEEK + 1))
        return Step("pauseFor", self._by(later.pauser), (seconds,))

    def plain(self, later: State) -> Step:
        name = self._chosen.choice(("resume", *9 * ("resumeKicks",), "pauseKicks"))
        if later.kicks_paused or later.time < later.paused_until:
            name = "resumeKicks" if later.kicks_paused else "resume"
        holder = later.pauser if name == "pauseKicks" else later.admin
        return Step(name, self._by(holder))

    # --- the chain ---

    def wait(self, _: State) -> Step:
        return Step(WAIT)

    def mark(self, _: State) -> Step:
        return Step(MARK)

    def reorg(self, _: State) -> Step:
        return Step(REORG)


def _nodes_in(state: State, kick_state: int) -> list[int]:
    return [node for node, kick in state.kicks.items() if kick.state == kick_state]


_WEIGHTS: dict[Callable[[StepDrawer, State], Step], int] = {
    StepDrawer.push: 280,
    StepDrawer.strike: 25,
    StepDrawer.accuse: 160,
    StepDrawer.execute: 140,
    StepDrawer.clear: 25,
    StepDrawer.bring: 120,
    StepDrawer.bind: 30,
    StepDrawer.challenge: 45,
    StepDrawer.retry: 35,
    StepDrawer.veto: 20,
    StepDrawer.allow: 15,
    StepDrawer.readmit: 25,
    StepDrawer.join: 40,
    StepDrawer.quit: 10,
    StepDrawer.refuse: 8,
    StepDrawer.signers: 4,
    StepDrawer.drop: 4,
    StepDrawer.limits: 8,
    StepDrawer.tighten: 10,
    StepDrawer.kick_limits: 8,
    StepDrawer.rules: 3,
    StepDrawer.target: 10,
    StepDrawer.role: 8,
    StepDrawer.accept: 12,
    StepDrawer.offer: 14,
    StepDrawer.schedule: 5,
    StepDrawer.cancel: 5,
    StepDrawer.pause: 8,
    StepDrawer.plain: 70,
    StepDrawer.wait: 5,
    StepDrawer.mark: 8,
    StepDrawer.reorg: 6,
}
_WEIGHED = (list(_WEIGHTS), list(_WEIGHTS.values()))
