"""One process of ours: the real services on a shared database, run as the daemon's loops do."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from oracle.chain.heads import Heads
from oracle.domain.ids import Address, Hash
from oracle.domain.report import ReportSettings
from oracle.errors import FatalError, InputError, TransientError
from oracle.publisher.contract import OracleContract
from oracle.publisher.fees import Caps
from oracle.publisher.publisher import Keys, Publisher
from oracle.publisher.typed_data import Domain
from oracle.services.confirming import confirm_next
from oracle.services.desk import Desk, Step
from oracle.services.leasing import renew, take
from oracle.services.publishing import publish_next
from oracle.services.reconciling import reconcile
from oracle.services.sending.bumping import bump_now
from oracle.services.sending.retargeting import cancel
from oracle.services.sending_settings import SendingSettings
from oracle.store.outbox_rows import (
    ON_ITS_WAY,
    Intent,
    IntentKind,
    IntentState,
    PauseKind,
    Wish,
)
from oracle.store.store import Store
from oracle.systems.crynux.rule_sets import SEED
from tests.simulation.books import Books, Wished
from tests.simulation.goals import Goals
from tests.simulation.memory import Memory
from tests.simulation.wires import MortalStore, PaperSigner, lines_of
from tests.simulation.world import Died, World

CHAIN_ID = 31337
ETHER = 10**18
CONTRACT = Address("0x" + "0c" * 20)
SETTINGS = ReportSettings(
    period_seconds=60, heartbeat_seconds=600, ttl_seconds=600, kick_below=2000
)
_MEDDLED = (IntentState.PLANNED, IntentState.READY, IntentState.LIVE, IntentState.HELD)
_STEPS_A_BLOCK = 6
# A statement is good for that long, in seconds.
_TTLS = (120, 300, 600)


@dataclass
class Replica:
    """`turn` is what it does while a block is made; it dies, and comes back as a new process."""

    world: World
    store: Memory
    books: Books
    goals: Goals
    log: Callable[[str], None] = lambda _: None
    _desk: Desk | None = None
    _back_at: int = 0
    _last_turn: int = 0
    _reconciled: bool = field(default=False)

    @property
    def is_leader(self) -> bool:
        """It lives, and took the lease."""
        return self._desk is not None

    def turn(self) -> None:
        """Work for the time of one block, if it lives."""
        world = self.world
        if world.number < self._back_at:
            return
        try:
            if self._desk is None:
                self._desk = self._start()
            self._work(self._desk)
        except TransientError as error:
            self.log(f"  tries again: {error}")
        except (Died, FatalError) as error:
            self._end(error)

    def _start(self) -> Desk:
        """Begin as a process does: nothing is remembered but the database."""
        store, world = cast("Store", MortalStore(self.store, self.world)), self.world
        epoch = take(store, "run")
        self._reconciled = False
        return Desk(
            store=store,
            publisher=self._publisher(),
            rules=SEED,
            rules_hash=Hash("0x" + 64 * "0"),
            settings=SETTINGS,
            epoch=epoch,
            clock=world.clock,
            confirmations=2,
            level="soft",
            evidence_folder=Path("/nowhere"),
            sending=SendingSettings(bump_blocks=world.setting.bump_blocks, bump_seconds=24),
        )

    def _publisher(self) -> Publisher:
        cap = self.world.setting.fee_cap * 10**9
        caps = Caps(cap, ETHER, 50 * ETHER, 20 * ETHER)
        keys = Keys(None, PaperSigner(self.world))
        publisher = Publisher([], domain=Domain(CHAIN_ID, CONTRACT), caps=caps, keys=keys)
        publisher.lines = lines_of(self.world, self.books.saw_send)
        publisher.contract = OracleContract(publisher.lines, CONTRACT)
        return publisher

    def _work(self, desk: Desk) -> None:
        renew(desk.store, desk.epoch)
        self.books.fold_to(self.world.chain.head)
        if not self._reconciled:
            reconcile(desk)
            self._reconciled = True
        if self.world.weather.strikes("operator", 0.05):
            self._operate(desk)
        for _ in range(_STEPS_A_BLOCK):
            heads = self.world.heads()
            step = publish_next(desk, heads) or self._plan(desk, heads)
            self.log(f"  {step}")
            seen = confirm_next(desk, heads)
            self.log(f"  {seen}")
            if step is None and seen is None:
                break
            self.books.check()
        if self.world.weather.noise == 0:
            self._release_all(desk)

    def _operate(self, desk: Desk) -> None:
        """Meddle with a call, as `outbox bump`, `cancel`, `hold` and `release` do."""
        with desk.store.reading() as unit:
            found = unit.outbox.intents.in_states(desk.account, _MEDDLED)
        if not found:
            return
        intent = self.world.dice.choice(found)
        try:
            if intent.state is IntentState.LIVE:
                verb = self.world.dice.choice((bump_now, cancel))
                self.log(f"  operator: {verb(desk, self.world.heads(), intent.id)}")
            else:
                self._hold_or_release(desk, intent)
        except InputError as error:
            self.log(f"  operator is told: {error}")

    def _release_all(self, desk: Desk) -> None:
        """When all is calm the operator lets everything go."""
        with desk.store.reading() as unit:
            held = unit.outbox.intents.in_states(desk.account, [IntentState.HELD])
        for intent in held:
            if intent.nonce is None:
                self._hold_or_release(desk, intent)

    def _hold_or_release(self, desk: Desk, intent: Intent) -> None:
        with desk.writing() as unit:
            if intent.state is IntentState.HELD:
                unit.outbox.intents.release(intent, desk.stamp)
            else:
                unit.outbox.intents.hold(intent, PauseKind.OPERATOR, "by hand", desk.stamp)

    def _end(self, error: BaseException) -> None:
        """Be gone for a while; a lease that it held stands until its time is over."""
        self.log(f"  ends: {error!r}")
        dice, was_leader = self.world.dice, self._desk is not None
        if self._desk is not None:
            self._desk.publisher.close()
        self._desk = None
        if was_leader or isinstance(error, Died):
            rest = dice.randint(0, 12)
            if self.world.weather.strikes("long downtime", 0.05):
                rest = dice.randint(100, 320)
            self._back_at = self.world.number + rest

    # --- the planner ---

    def _plan(self, desk: Desk, heads: Heads) -> Step | None:
        """Want the next effect, as planning does: in a commit of its own, under a key of its own.

        One that came to an end without its effect is wanted again, under another key.
        """
        known, now = self.books.wishes(), heads.latest.time
        with desk.store.reading() as unit:
            under_way = unit.outbox.intents.in_states(desk.account, ON_ITS_WAY)
        # Beside one that can no longer land the next is planned, which then takes its nonce.
        is_busy = any(
            one.wish.kind is IntentKind.PUSH
            and not (one.state is IntentState.LIVE and (one.wish.deadline or 0) < now)
            for one in under_way
        )
        wanted = None if is_busy else self.goals.next_push(known)
        kind = IntentKind.PUSH
        if wanted is None:
            wanted, kind = self.goals.next_kick(known), IntentKind.CANCEL_KICK
        if wanted is None:
            return None
        tries = known.get(wanted, Wished("", 0, is_over=False)).tries
        wish = Wish(
            account=desk.account,
            contract=CONTRACT,
            kind=kind,
            dedup_key=f"{kind}:{wanted}:{tries}",
            calldata=wanted,
            subject="" if kind is IntentKind.PUSH else f"ix={int(wanted, 16)}",
            deadline=now + self.world.dice.choice(_TTLS),
        )
        with desk.writing() as unit:
            added = unit.outbox.intents.add(wish, desk.stamp)
        return Step("wanted", added, f"{kind} {wanted}, try {tries}")
