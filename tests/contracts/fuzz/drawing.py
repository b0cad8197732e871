"""Who does what next: every function of the contract, by right and by wrong callers."""

from collections.abc import Callable
from dataclasses import replace
from random import Random

from tests.contracts.fuzz.data_drawing import NODES
from tests.contracts.fuzz.evm import GAS
from tests.contracts.fuzz.limits import DAY, HOUR
from tests.contracts.fuzz.quorums import sign_by_quorum, twist_signatures
from tests.contracts.fuzz.refusals import kick_digest
from tests.contracts.fuzz.reports import push
from tests.contracts.fuzz.settings import kick_limits, limits, tighter
from tests.contracts.fuzz.signing import ring
from tests.contracts.fuzz.start import ADMIN, PAUSER, SPARE, STRANGER, VETOER
from tests.contracts.fuzz.state import EXPELLED, PENDING, RECENT, REFUSED, Place, State
from tests.contracts.fuzz.step import MARK, OF_THE_NETWORK, REORG, WAIT, Step

WEEK = 7 * DAY
EVERYBODY = (ADMIN, PAUSER, VETOER, STRANGER, SPARE)
EVIDENCE = 0xE1 << 248
# Old steps are sent again now and then; as many are remembered.
REMEMBERED = 40


class Hand:
    """Draws the next step for a state; what it drew before may come again."""

    def __init__(self, chosen: Random, place: Place) -> None:
        self._chosen = chosen
        self._place = place
        self._drawn: list[Step] = []

    def draw(self, state: State) -> Step:
        if self._drawn and self._chosen.random() < 0.03:
            return replace(self._chosen.choice(self._drawn), blocks=1, seconds=1)
        action = self._chosen.choices(*_WEIGHED)[0]
        blocks, seconds = self._pass(state)
        if action is Hand.execute:
            seconds = self._until_ready(state, seconds)
        later = replace(state, number=state.number + blocks, time=state.time + seconds)
        step = replace(action(self, later), blocks=blocks, seconds=seconds)
        if not step.caller:
            step = replace(step, caller=self._chosen.choice((*EVERYBODY, ring()[0].address)))
        if step.name not in OF_THE_NETWORK:
            self._drawn = [*self._drawn[-REMEMBERED:], step]
        return step

    def _pass(self, state: State) -> tuple[int, int]:
        some = self._chosen
        blocks = some.choices((1, 2, 10, 300, 5_000), (60, 20, 10, 6, 2))[0]
        limit = state.limits
        waits = (limit.veto_delay, limit.kick_window, limit.max_age, state.kick_limits.frame)
        pause = state.paused_until - state.time
        far = (*waits, limit.max_age + 1, WEEK, pause, pause + state.pause)
        near = (0, 1, limit.min_interval, limit.min_interval, limit.veto_delay)
        return blocks, max(some.choice(near if some.random() < 0.97 else far), 0)

    def _until_ready(self, state: State, seconds: int) -> int:
        """Mostly the seconds until a kickout can be executed, or one more or less."""
        live = [slot for who, slot in state.slots.items() if state.is_pending(who)]
        if not live or self._chosen.random() < 0.4:
            return seconds
        slot = self._chosen.choice(live)
        edge = self._chosen.choice((*5 * (slot.ready_at,), slot.dies_at))
        return max(edge - state.time + self._chosen.choice((-1, 0, 0, 1)), 0)

    def _by(self, holder: int) -> int:
        """Mostly the one whose right it is."""
        return holder if self._chosen.random() < 0.8 else self._chosen.choice(EVERYBODY)

    # --- rounds and kickouts ---

    def push(self, later: State) -> Step:
        return push(self._chosen, self._place, later)

    def propose(self, later: State) -> Step:
        some = self._chosen
        low = [who for who in later.holders if later.is_low(who)]
        if some.random() < 0.8:
            low = [who for who in low if later.slot(who).kick < EXPELLED]
        signed_on = self._recent(later)
        deadline = later.time + some.choice((0, 600, HOUR))
        words = [signed_on, later.reports[signed_on], self._node(low), EVIDENCE, deadline]
        if some.random() < 0.15:
            over = (later.round - RECENT, later.round - RECENT - 1, later.round + 1)
            late = (later.time - 1, later.time + HOUR + 1)
            wrong = (over, (0, 1), (0, NODES), (0,), late)
            at = some.randrange(5)
            words[at] = max(some.choice(wrong[at]), 0)
            if at == 0:
                # With its own report, where there was one.
                words[1] = later.reports[words[0]] if words[0] <= later.round else 0
        signed = list(words)
        if some.random() < 0.05:
            signed[some.randrange(1, 5)] += 1
        digest = kick_digest(self._place, later, tuple(signed))
        signatures = sign_by_quorum(some, later, digest)
        if some.random() < 0.1:
            signatures = twist_signatures(some, signatures)
        is_forwarded = some.random() < 0.1
        return Step(
            "proposeKick", words=tuple(words), signatures=signatures, is_forwarded=is_forwarded
        )

    def _recent(self, later: State) -> int:
        """Mostly the newest round, or one that a kickout may still be signed on."""
        oldest = max(later.round - RECENT + 1, 0)
        some = self._chosen
        return some.choice((later.round, later.round, oldest, some.randint(oldest, later.round)))

    def execute(self, later: State) -> Step:
        some = self._chosen
        live = _in(later, PENDING)
        young = [who for who in live if later.is_pending(who)]
        target = later.kick_limits.gas
        gas = target + some.randint(-10_000, 150_000) if some.random() < 0.2 else GAS
        is_forwarded = some.random() < 0.1
        words = (self._node(young or live),)
        return Step("executeKick", words=words, gas=gas, is_forwarded=is_forwarded)

    def retry(self, later: State) -> Step:
        refused = _in(later, REFUSED)
        words = (self._node(refused or _in(later, EXPELLED)),)
        return Step("retryKick", words=words, is_forwarded=self._chosen.random() < 0.1)

    def cancel(self, later: State) -> Step:
        return Step(
            "cancelKick", self._by(later.vetoer), (self._node(_in(later, PENDING)), EVIDENCE)
        )

    def readmit(self, later: State) -> Step:
        expelled = _in(later, EXPELLED) + _in(later, REFUSED)
        return Step("readmit", self._by(later.admin), (self._node(expelled),))

    def _node(self, candidates: list[int]) -> int:
        """Mostly one of the wanted ones."""
        if candidates and self._chosen.random() < 0.9:
            return self._chosen.choice(candidates)
        return self._chosen.randrange(1, NODES + 1)

    # --- nodes ---

    def join(self, later: State) -> Step:
        outside = [node for node in range(1, NODES) if node not in later.members]
        return Step("join", words=(self._chosen.choice(outside),)) if outside else Step(WAIT)

    def quit(self, later: State) -> Step:
        inside = sorted(later.members)
        return Step("quit", words=(self._chosen.choice(inside),)) if inside else Step(WAIT)

    def refuse(self, later: State) -> Step:
        return Step("setRefuses", words=(int(not later.refuses and self._chosen.random() < 0.4),))

    # --- roles ---

    def signers(self, later: State) -> Step:
        some = self._chosen
        count = some.randint(1, 7)
        new_signers = tuple(key.address for key in some.sample(ring(), count))
        needed = some.choice((count // 2 + 1, count // 2 + 1, count, count // 2, count + 1))
        if some.random() < 0.2:
            new_signers = some.choice(
                ((), (*new_signers, 0), (*new_signers, new_signers[0]), tuple(range(1, 257)))
            )
            needed = len(new_signers) % 256
        return Step("setSigners", self._by(later.admin), (needed,), new_signers)

    def drop(self, later: State) -> Step:
        candidates = (*later.signers, ring()[-1].address, 0)
        return Step(
            "dropSigner", self._by(later.pauser or STRANGER), (self._chosen.choice(candidates),)
        )

    def limits(self, later: State) -> Step:
        some = self._chosen
        new_limits = limits(some, self._place.farthest)
        if some.random() < 0.3:
            wrong = (
                *(("max_words", 0), ("max_words", 2_048), ("anchor_window", 1), ("max_age", 0)),
                *(("anchor_window", self._place.farthest + 1), ("max_age", 30 * DAY + 1)),
                *(("kick_below", 10_001), ("kick_window", 0)),
                *(("fall_share", 10_001), ("big_fall", 10_001)),
            )
            new_limits = new_limits._replace(**dict([some.choice(wrong)]))
        return Step("setLimits", self._by(later.admin), tuple(new_limits))

    def tighten(self, later: State) -> Step:
        new_limits = tighter(self._chosen, later.limits)
        return Step("tightenLimits", self._by(later.pauser or STRANGER), tuple(new_limits))

    def kick_limits(self, later: State) -> Step:
        some = self._chosen
        new_limits = kick_limits(some)
        if some.random() < 0.3:
            wrong = (("frame", 0), ("gas", 49_999), ("gas", 15_000_001))
            new_limits = new_limits._replace(**dict([some.choice(wrong)]))
        return Step("setKickLimits", self._by(later.admin), tuple(new_limits))

    def rules(self, later: State) -> Step:
        arguments = (self._chosen.choice((0, EVIDENCE, EVIDENCE + 1)),)
        return Step("setRules", self._by(later.admin), arguments)

    def target(self, later: State) -> Step:
        place = self._place
        to = self._chosen.choice((place.network, place.network, place.oracle, 0, STRANGER))
        return Step("setTarget", self._by(later.admin), (to,))

    def role(self, later: State) -> Step:
        name = self._chosen.choice(("setPauser", "setVetoer", "transferAdmin", "transferAdmin"))
        # Mostly to whom it belongs: a walk without a pauser sees no pause.
        usual = {"setPauser": PAUSER, "setVetoer": VETOER, "transferAdmin": SPARE}[name]
        to = self._chosen.choice((usual, usual, 0, STRANGER))
        return Step(name, self._by(later.admin), (to,))

    def accept(self, later: State) -> Step:
        return Step("acceptAdmin", self._by(later.pending_admin or STRANGER))

    def pause(self, later: State) -> Step:
        seconds = self._chosen.choice((1, 1, 60, 600, WEEK, 0, WEEK + 1))
        return Step("pauseFor", self._by(later.pauser or STRANGER), (seconds,))

    def plain(self, later: State) -> Step:
        name = self._chosen.choice(("resume", *5 * ("resumeKicks",), "pauseKicks"))
        if later.kicks_paused or later.time < later.paused_until:
            name = "resumeKicks" if later.kicks_paused else "resume"
        holder = later.pauser if name == "pauseKicks" else later.admin
        return Step(name, self._by(holder or STRANGER))

    # --- the chain ---

    def wait(self, _: State) -> Step:
        return Step(WAIT)

    def mark(self, _: State) -> Step:
        return Step(MARK)

    def reorg(self, _: State) -> Step:
        return Step(REORG)


def _in(state: State, kick: int) -> list[int]:
    """Whose slot says this."""
    return [who for who, slot in state.slots.items() if slot.kick == kick]


_WEIGHTS: dict[Callable[[Hand, State], Step], int] = {
    Hand.push: 320,
    Hand.propose: 170,
    Hand.execute: 180,
    Hand.retry: 40,
    Hand.cancel: 25,
    Hand.readmit: 20,
    Hand.join: 40,
    Hand.quit: 10,
    Hand.refuse: 8,
    Hand.signers: 4,
    Hand.drop: 4,
    Hand.limits: 8,
    Hand.tighten: 8,
    Hand.kick_limits: 8,
    Hand.rules: 3,
    Hand.target: 10,
    Hand.role: 8,
    Hand.accept: 6,
    Hand.pause: 10,
    Hand.plain: 50,
    Hand.wait: 5,
    Hand.mark: 8,
    Hand.reorg: 6,
}
_WEIGHED = (list(_WEIGHTS), list(_WEIGHTS.values()))
