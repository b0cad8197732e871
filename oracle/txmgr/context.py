"""What the publishing services have before them: the outbox, the publisher, a clock, the rules."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from oracle.bindings.qos_oracle import ContractStatus, OracleContract
from oracle.chain.heads import Heads
from oracle.dispatch.dispatch_settings import DispatchSettings
from oracle.domain.ids import Hash
from oracle.domain.reports.report import ReportSettings
from oracle.domain.reports.sanity_limits import Sanity
from oracle.domain.reports.submission_policy import SubmissionPolicy
from oracle.domain.scoring.rules import Rules
from oracle.indexer.reorgs.finality_halt import why_stopped
from oracle.kickouts.proof import EvidenceVerifier
from oracle.quorum.board import Board
from oracle.quorum.lacking import MissingSignatures
from oracle.quorum.peer_client import PeerClients
from oracle.rpc.views.fanout import PoolView
from oracle.store.database import Store, UnitOfWork
from oracle.store.outbox.records import Account, Stamp
from oracle.txmgr.accounts_and_limits import SenderAccount
from oracle.txmgr.client.fee_market import ask_market
from oracle.txmgr.client.fee_quote import Fees, Market, quote
from oracle.txmgr.client.l1_fees import L1Fee
from oracle.txmgr.client.receipts import balance_of
from oracle.txmgr.nonce_searches import Searches
from oracle.txmgr.turns import Turns


@dataclass(frozen=True, slots=True)
class SendSettings:
    """The numbers of `[limits]` that are no money (docs/explanation/transactions.md#fees).

    A transaction is bumped when `bump_blocks` blocks and `bump_seconds` seconds of the chain's
    time have passed; at most `max_attempts` are signed for a nonce. `max_in_flight`: nonces of
    the transmitter that are not final. `l1_fee`: how a rollup tells what its data costs.
    """

    bump_blocks: int = 3
    bump_seconds: int = 30
    max_attempts: int = 10
    max_in_flight: int = 64
    l1_fee: L1Fee = L1Fee.NONE


# A call that is tried on the newest block runs in that block, which cannot see its own hash.
_BLOCKS_UNDER_HEAD = 2


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
    kinds = [step.did for step in steps]
    counted = ", ".join(f"{kinds.count(kind)} {kind}" for kind in dict.fromkeys(kinds))
    return StepResult(did, steps[0].intent, counted)


@dataclass(frozen=True, slots=True)
class TxContext:
    """One transmitter at work. It exists only where publishing was asked for.

    `epoch` is the lease's: every write is fenced by it. `clock` tells unix seconds, for the
    journal and the budget of a day; deadlines are in the chain's time. `confirmations`: blocks on
    top of a receipt's, beside finality. `level`: which head a report's as-of must lie under.
    `sending`: when to pay more, and how many at once.
    `dispatch`: only at the dispatcher's own desk, whose publisher calls the network contract.
    `prover` verifies what a kickout rests on; without one every kickout waits. `patience`: when
    a report is worth its gas; `sanity`: when it waits for a human. `board` shows what is signed
    here to the other reporters, `peers`; one who transmits waits `head_start` seconds of the
    chain with a push, and `blocks_ahead` blocks with every call, for those of a lower rank.
    """

    store: Store
    publisher: SenderAccount
    rules: Rules
    rules_hash: Hash
    settings: ReportSettings
    epoch: int
    clock: Callable[[], float]
    confirmations: int
    level: Literal["soft", "safe"]
    evidence_folder: Path
    dispatch: DispatchSettings | None = None
    sending: SendSettings = field(default_factory=SendSettings)
    prover: EvidenceVerifier | None = None
    patience: SubmissionPolicy = field(default_factory=SubmissionPolicy)
    sanity: Sanity = field(default_factory=Sanity)
    # The OS user, where a command works here; None: the daemon.
    actor: str | None = None
    board: Board | None = None
    peers: PeerClients | None = None
    head_start: int = 0
    blocks_ahead: int = 0
    # What the next report still lacks of a quorum.
    lack: MissingSignatures = field(default_factory=MissingSignatures)
    # Since which block each planned call waits for its turn.
    turns: Turns = field(default_factory=Turns)
    # Which used nonces were searched for in the blocks in vain.
    searches: Searches = field(default_factory=Searches)

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
        return self.publisher.lines.that_reached(folded - _BLOCKS_UNDER_HEAD)

    def contract(self) -> OracleContract:
        """Return the oracle contract as these `lines` have it."""
        return OracleContract(self.lines(), self.publisher.contract.address)

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

    def standing(self) -> ContractStatus:
        """Return how the contract stands at the newest block.

        Raises:
            TransientError: no endpoint answers, or none that has the contract.
        """
        return self.contract().standing()

    def is_stopped(self) -> bool:
        """Tell whether a latch is closed: then nothing is planned, signed or sent."""
        with self.store.reading() as uow:
            return why_stopped(uow) is not None

    def newest_as_of(self, heads: Heads) -> int:
        """Return the highest block that a report sent now may speak of."""
        if self.level == "safe":
            return min(
                (heads.safe or heads.final).number, heads.latest.number - _BLOCKS_UNDER_HEAD
            )
        return heads.latest.number - _BLOCKS_UNDER_HEAD

    def is_at_head(self, uow: UnitOfWork, heads: Heads) -> bool:
        """Tell whether the fold has come to the head: what it holds is how things are now."""
        cursor = uow.cursor.get()
        return cursor is not None and cursor.number >= heads.latest.number - _BLOCKS_UNDER_HEAD

    def is_final(self, block: int, heads: Heads) -> bool:
        """Tell whether what happened in a block will stay."""
        deep = heads.latest.number - block >= self.confirmations
        return deep and block <= heads.final.number
