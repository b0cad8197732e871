"""What the transaction manager has before it: the outbox, an account, its limits, a clock."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from oracle.chain.heads import Heads
from oracle.domain.ids import Address
from oracle.rpc.fanout import PoolView
from oracle.signing.signer import Fees
from oracle.store.database import Store, UnitOfWork
from oracle.store.outbox.records import Account, Stamp
from oracle.txmgr.accounts_and_limits import SenderAccount
from oracle.txmgr.call_registry import CallRegistry
from oracle.txmgr.client.fee_market import ask_market
from oracle.txmgr.client.fee_quote import Market, quote
from oracle.txmgr.client.l1_fees import L1Fee
from oracle.txmgr.client.preflight import PreflightResult, preflight
from oracle.txmgr.client.receipts import SimulatedCall, balance_of

_MOST = 10_000
# Signed bytes are sent again after so many blocks at first, and at last.
_FIRST_REBROADCAST_BLOCKS = 2
_MAX_REBROADCAST_BLOCKS = 8
# At last a nonce is searched for again after so many final blocks.
_MOST_BLOCKS = 64


@dataclass(slots=True)
class FirstSeen:
    """At which block each planned call was seen first: from there its turn is counted."""

    _began: dict[int, int] = field(default_factory=dict)

    def began(self, intent_id: int, block: int) -> int:
        """Return the head at which this call was looked at first; a fork may lie below it."""
        if len(self._began) > _MOST:
            self._began.clear()
        self._began[intent_id] = min(block, self._began.get(intent_id, block))
        return self._began[intent_id]


@dataclass(slots=True)
class Searches:
    """Of each nonce that was searched for in the blocks in vain: when to search again.

    That is a final block, and how many to wait after it.
    """

    _again: dict[int, tuple[int, int]] = field(default_factory=dict)

    def is_due(self, nonce: int, final: int) -> bool:
        """Tell whether to search now: at once, then after 1, 2, 4 … final blocks."""
        return final >= self._again.get(nonce, (0, 1))[0]

    def was_in_vain(self, nonce: int, final: int) -> None:
        """Note that nothing came of it."""
        blocks = self._again.get(nonce, (0, 1))[1]
        self._again[nonce] = (final + blocks, min(2 * blocks, _MOST_BLOCKS))


@dataclass(slots=True)
class Rebroadcasts:
    """How many blocks to wait before signed bytes are sent again, by the id of the attempt."""

    _wait_blocks: dict[int, int] = field(default_factory=dict)

    def wait_blocks(self, attempt_id: int) -> int:
        """Return the blocks between the last broadcast of an attempt and the next."""
        return self._wait_blocks.get(attempt_id, _FIRST_REBROADCAST_BLOCKS)

    def double_wait(self, attempt_id: int) -> None:
        """Wait twice as long from now on: the endpoints answered as the last time."""
        if len(self._wait_blocks) > _MOST:
            self._wait_blocks.clear()
        doubled = 2 * self.wait_blocks(attempt_id)
        self._wait_blocks[attempt_id] = min(doubled, _MAX_REBROADCAST_BLOCKS)

    def reset_wait(self, attempt_id: int) -> None:
        """Begin again with the shortest wait: something has changed."""
        self._wait_blocks.pop(attempt_id, None)


@dataclass(frozen=True, slots=True)
class SendSettings:
    """The numbers of `[limits]` that are no money (docs/explanation/transactions.md#fees).

    A transaction is bumped when `bump_blocks` blocks and `bump_seconds` seconds of the chain's
    time have passed; at most `max_attempts` are signed for a nonce. `max_in_flight`: nonces of
    the account that are not final, None: its planner counts them. `l1_fee`: how a rollup tells
    what its data costs. Nothing is signed for a deadline that is too near, which is
    `most_margin_seconds` away or less.
    """

    bump_blocks: int = 3
    bump_seconds: int = 30
    max_attempts: int = 10
    max_in_flight: int | None = 64
    l1_fee: L1Fee = L1Fee.NONE
    most_margin_seconds: int = 300


@dataclass(frozen=True, slots=True)
class Rank:
    """Where we stand among several transmitters of the same calls.

    Whoever has others beside it leaves a call to those of a lower rank for `blocks_ahead` blocks
    (and its planner for `head_start` seconds of the chain), and looks into the pool first.
    """

    has_others: bool = False
    head_start: int = 0
    blocks_ahead: int = 0


# A call that is tried on the newest block runs in that block, which cannot see its own hash.
BLOCKS_UNDER_HEAD = 2


@dataclass(frozen=True, slots=True)
class StepResult:
    """What one step did, for one line of the log; `intent` is the outbox's number for it."""

    did: str
    intent: int | None = None
    detail: str = ""


def as_one(did: str, steps: Sequence[StepResult]) -> StepResult | None:
    """Tell of several steps as one that counts them; a single one speaks for itself."""
    if len(steps) < 2:  # noqa: PLR2004
        return steps[0] if steps else None
    return StepResult(did, steps[0].intent, counted([step.did for step in steps]))


def counted(names: Sequence[str]) -> str:
    """Say how often each is among them, in the order of their first."""
    return ", ".join(f"{names.count(name)} {name}" for name in dict.fromkeys(names))


@dataclass(frozen=True, slots=True)
class TxContext:
    """One account at work. It exists only where sending was asked for.

    `registry`: whose calls it sends. `epoch` is the lease's: every write is fenced by it. `clock`
    tells unix seconds, for the journal and the budget of a day; deadlines are in the chain's time.
    `confirmations`: blocks on top of a receipt's, beside finality. `batch_size`: so many calls go
    a step together. `role`: what metrics call the account. `actor`: the OS user, where a command
    works here; None: the daemon.
    """

    store: Store
    publisher: SenderAccount
    registry: CallRegistry
    epoch: int
    clock: Callable[[], float]
    confirmations: int
    batch_size: int = 1
    role: str = "transmitter"
    sending: SendSettings = field(default_factory=SendSettings)
    rank: Rank = field(default_factory=Rank)
    actor: str | None = None
    # Since which block each planned call waits for its turn.
    first_seen: FirstSeen = field(default_factory=FirstSeen)
    # Which used nonces were searched for in the blocks in vain.
    searches: Searches = field(default_factory=Searches)
    # How long each attempt waits before it is sent again.
    rebroadcasts: Rebroadcasts = field(default_factory=Rebroadcasts)

    @property
    def account(self) -> Account:
        """Who sends."""
        return Account(self.publisher.domain.chain_id, self.publisher.sender)

    @property
    def stamp(self) -> Stamp:
        """When and under which lease the next write happens."""
        return Stamp(int(self.clock()), self.epoch, self.actor)

    @contextmanager
    def writing(self) -> Iterator[UnitOfWork]:
        """One transaction that nobody else's can overtake.

        Raises:
            FatalError: another process has taken over the lease.
        """
        with self.store.transaction() as uow:
            uow.lease.guard(self.epoch)
            yield uow

    def before_sending(self) -> None:
        """Make sure that bytes may leave now: we lead, and can note that they left.

        A database that cannot be written would have them sent again and again.

        Raises:
            FatalError: another process has taken over the lease.
            TransientError: nothing can be written now; nothing may be sent.
        """
        with self.store.transaction() as uow:
            uow.lease.prove(self.epoch)

    def lines(self) -> PoolView:
        """Return the endpoints that have come as far as the fold; all of them, where none has."""
        with self.store.reading() as uow:
            cursor = uow.cursor.get()
        folded = 0 if cursor is None else cursor.number
        return self.publisher.lines.that_reached(folded - BLOCKS_UNDER_HEAD)

    def preflight(self, calldata: str, contract: Address | None = None) -> PreflightResult:
        """Ask these `lines` what a call of ours would do now; None: of the account's contract."""
        called = contract or self.publisher.domain.contract
        call = SimulatedCall(self.account.address, called, calldata)
        return preflight(self.lines(), call, self.registry.refusal_of)

    def market(self) -> Market:
        """Ask these `lines` what the chain takes for gas now: one that stands still is long wrong.

        Raises:
            TransientError: no endpoint tells.
        """
        return ask_market(self.lines(), self.publisher.caps)

    def fees(self, cap: int | None = None) -> Fees | None:
        """Quote what a transaction pays now, within the caps; None: they are below the market.

        Raises:
            TransientError: no endpoint tells.
        """
        most = self.publisher.caps.fee_per_gas
        return quote(self.market(), most if cap is None else min(most, cap))

    def balance(self) -> int:
        """Return our ether in wei, as these `lines` have it: others know of no top-up.

        Raises:
            TransientError: no endpoint tells.
        """
        return balance_of(self.lines(), self.account.address)

    def is_stopped(self) -> bool:
        """Tell whether a halt is active: then nothing is planned, signed or sent."""
        with self.store.reading() as uow:
            return uow.halts.reason() is not None

    def is_at_head(self, uow: UnitOfWork, heads: Heads) -> bool:
        """Tell whether the fold has come to the head: what it holds is how things are now."""
        cursor = uow.cursor.get()
        return cursor is not None and cursor.number >= heads.latest.number - BLOCKS_UNDER_HEAD

    def is_final(self, block: int, heads: Heads) -> bool:
        """Tell whether what happened in a block will stay."""
        deep = heads.latest.number - block >= self.confirmations
        return deep and block <= heads.final.number
