"""One process: the real services on a shared database, run like the daemon's loops."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from oracle.bindings.contract_errors import decode_refusal
from oracle.chain.heads import Heads
from oracle.daemon.contexts import ReporterContexts
from oracle.daemon.lease_keeper import acquire_lease, renew_held_lease
from oracle.domain.ids import ZERO_HASH, Address
from oracle.domain.reports.kickout_policy import KickoutPolicy
from oracle.domain.reports.report import ReportSettings
from oracle.errors import FatalError, InputError, TransientError
from oracle.kickouts.kickout_context import KickoutContext
from oracle.quorum.quorum_context import QuorumContext
from oracle.reporting.reporting_context import ReportingContext
from oracle.signing.typed_data import Domain
from oracle.store.database import Store
from oracle.store.outbox.records import Intent, IntentState, PauseKind
from oracle.systems.crynux.crynux_rule_sets import CRYNUX
from oracle.txmgr.accounts_and_limits import ReporterKeys, SenderAccount
from oracle.txmgr.call_registry import CallRegistry, SimpleCallKind
from oracle.txmgr.client.fee_quote import SendLimits
from oracle.txmgr.confirmer import confirm_transactions
from oracle.txmgr.context import AccountContext, SendSettings, StepResult
from oracle.txmgr.manager import run_step
from oracle.txmgr.nonce_sync import reconcile_nonces
from tests.simulation.books import Books
from tests.simulation.memory import Memory
from tests.simulation.money import MILLIETHER
from tests.simulation.planner import OTHER, Planner
from tests.simulation.wires import SIGNER, MortalStore, PaperSigner, Talk, pool_in
from tests.simulation.world import Died, World
from tests.support.txmgr.operator_actions import bump_fee_now, cancel_intent

CHAIN_ID = 31337
ETHER = 10**18
CONTRACT = Address("0x" + "0c" * 20)
SETTINGS = ReportSettings(
    period_seconds=60, heartbeat_seconds=600, ttl_seconds=600, kick_below=2000
)
_MEDDLED = (
    IntentState.PLANNED,
    IntentState.READY,
    IntentState.ASSIGNED,
    IntentState.LIVE,
    IntentState.HELD,
)
# The chance that an operator changes the account instead of a call.
_PAUSE_CHANCE = 0.3
_STEPS_A_BLOCK = 6
# In blocks; a block takes 12 seconds, and the lease lasts for 30.
_RENEWED_EVERY = 2
_KNOCKS_EVERY = 2


@dataclass
class Replica:
    """A process that may die and restart; `turn` does its work for one block."""

    world: World
    store: Memory
    books: Books
    planner: Planner
    log: Callable[[str], None] = lambda _: None
    _context: QuorumContext | None = None
    _back_at: int = 0
    _renewed_at: int = 0
    _reconciled: bool = field(default=False)
    _talk: Talk = field(default_factory=Talk)

    @property
    def is_leader(self) -> bool:
        """Whether the process is alive and holds the lease."""
        return self._context is not None

    def turn(self) -> None:
        """Work for the duration of one block, if the process is alive."""
        world = self.world
        if world.number < self._back_at:
            return
        try:
            if self._context is None:
                self._context = self._start()
            self._work(self._context)
        except TransientError as error:
            self.log(f"  tries again: {error}")
        except (Died, FatalError) as error:
            self._end(error)

    def _start(self) -> QuorumContext:
        """Start as a new process does, with nothing but the database."""
        world = self.world
        self._talk = Talk()
        store = cast("Store", MortalStore(self.store, world, self._judge))
        epoch = acquire_lease(store, "run")
        self._reconciled = False
        tx = AccountContext(
            store=store,
            sender_account=self._publisher(),
            registry=CallRegistry(decode_refusal),
            epoch=epoch,
            clock=world.clock,
            confirmations=2,
            finality_depth=world.setting.finality,
            batch_size=world.setting.batch_size,
            send_settings=SendSettings(bump_blocks=world.setting.bump_blocks, bump_seconds=24),
        )
        quorum = QuorumContext(tx, SETTINGS)
        contexts = ReporterContexts(
            ReportingContext(quorum, ZERO_HASH, KickoutPolicy(CRYNUX)),
            KickoutContext(quorum, KickoutPolicy(CRYNUX), Path("/nowhere")),
        )
        contexts.register_reporter_calls()
        tx.registry.register(SimpleCallKind(OTHER))
        return quorum

    def _publisher(self) -> SenderAccount:
        world, setting = self.world, self.world.setting
        caps = SendLimits(
            setting.fee_cap * 10**9,
            setting.call_cap * MILLIETHER,
            50 * ETHER,
            setting.hour_cap * MILLIETHER,
        )
        keys = ReporterKeys(PaperSigner(world, SIGNER), PaperSigner(world))
        pool = pool_in(world, self.books.saw_send, self._talk)
        return SenderAccount(pool, domain=Domain(CHAIN_ID, CONTRACT), caps=caps, keys=keys)

    def _work(self, quorum: QuorumContext) -> None:
        context = quorum.account_context
        # Not in each turn: a process that lost the lease occasionally learns this when it writes.
        if self.world.number >= self._renewed_at + _RENEWED_EVERY:
            renew_held_lease(context.store, context.epoch)
            self._renewed_at = self.world.number
        self.books.fold_to(self.world.chain.head)
        if not self._reconciled:
            reconcile_nonces(context)
            self._reconciled = True
        if self.world.weather.strikes("operator", 0.05) and self.world.setting.operator:
            self._operate(context)
        for _ in range(_STEPS_A_BLOCK):
            heads = self.world.fetch_heads()
            confirmation = self._confirm(context, heads)
            step = run_step(context, heads) or self.planner.plan(quorum, heads)
            if step is None and confirmation is None:
                break
            self.log(f"  {confirmation}")
            self.log(f"  {step}")
        if self.world.weather.noise == 0:
            self._pause_or_resume(context, is_paused=True)
            self._release_all(context)

    def _confirm(self, context: AccountContext, heads: Heads) -> StepResult | None:
        watched_hashes = self.books.to_watch()
        self._talk.hashes.clear()
        confirmation = confirm_transactions(context, heads)
        self.books.saw_watching(watched_hashes, self._talk.hashes)
        return confirmation

    def _judge(self) -> None:
        """Check the invariants after a write."""
        self.books.check(self._talk.balance, self.world.clock())

    def _operate(self, context: AccountContext) -> None:
        """Change a call or the account as `outbox bump`, `cancel`, `hold` and `release` do."""
        with context.store.read_transaction() as uow:
            intents = uow.outbox.intents.list_in_states(context.account, _MEDDLED)
            is_paused = uow.outbox.accounts.find_pause(context.account) is not None
        if is_paused:
            # An operator who bumps a call of a paused account signs for it.
            intents = [intent for intent in intents if intent.state is not IntentState.LIVE]
        if not intents or self.world.dice.random() < _PAUSE_CHANCE:
            self._pause_or_resume(context, is_paused=is_paused)
            return
        intent = self.world.dice.choice(intents)
        try:
            if intent.state is IntentState.LIVE:
                verb = self.world.dice.choice((bump_fee_now, cancel_intent))
                self.log(f"  operator: {verb(context, self.world.fetch_heads(), intent.id)}")
            else:
                self._hold_or_release(context, intent)
        except InputError as error:
            self.log(f"  operator gets the error: {error}")

    def _pause_or_resume(self, context: AccountContext, *, is_paused: bool) -> None:
        """Pause the account, or end a pause that an operator has to end."""
        with context.write_transaction() as uow:
            pause = uow.outbox.accounts.find_pause(context.account)
            if pause is not None and is_paused and pause.kind is PauseKind.OPERATOR:
                uow.outbox.accounts.resume(context.account, context.stamp)
            if pause is None and not is_paused and self._reconciled:
                uow.outbox.accounts.pause(
                    context.account, PauseKind.OPERATOR, "by hand", context.stamp
                )

    def _release_all(self, context: AccountContext) -> None:
        """Release all held calls in the calm phase, as an operator would."""
        with context.store.read_transaction() as uow:
            held = uow.outbox.intents.list_in_states(context.account, [IntentState.HELD])
        for intent in held:
            if intent.nonce is None:
                self._hold_or_release(context, intent)

    def _hold_or_release(self, context: AccountContext, intent: Intent) -> None:
        with context.write_transaction() as uow:
            if intent.state is IntentState.HELD:
                uow.outbox.intents.release(intent, context.stamp)
            elif uow.outbox.intents.is_unsigned(intent):
                uow.outbox.intents.hold(intent, PauseKind.OPERATOR, "by hand", context.stamp)

    def _end(self, error: BaseException) -> None:
        """End the process for a while; its lease lasts until it expires."""
        # The database's own clock is not part of the seeded story.
        self.log(f"  ends: {type(error).__name__}, {str(error).partition(';')[0]}")
        dice = self.world.dice
        was_leader = self._context is not None
        if self._context is not None:
            self._context.account_context.sender_account.pool.close()
        self._context = None
        self._back_at = self.world.number + _KNOCKS_EVERY
        if was_leader or isinstance(error, Died):
            downtime_blocks = dice.randint(0, 12)
            if self.world.weather.strikes("long downtime", 0.05):
                downtime_blocks = dice.randint(100, 320)
            self._back_at = self.world.number + downtime_blocks
