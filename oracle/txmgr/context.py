"""The state that the transaction manager needs, such as an account, its limits and a clock.

A dry run executes the production code with a context of its own, which prevents it from signing,
writing and sending. All checks run as usual, so that a dry run reports what a real run would do.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from typing import NoReturn

from typing_extensions import override

from oracle.chain.decode.abi import SELECTOR_DIGITS
from oracle.chain.heads import Heads
from oracle.domain.ids import Address
from oracle.rpc.fanout import PoolView
from oracle.signing.local import DryRunSignatureError
from oracle.signing.signer import Fees
from oracle.store.database import Store, UnitOfWork
from oracle.store.outbox.records import Account, Stamp
from oracle.txmgr.accounts_and_limits import SenderAccount
from oracle.txmgr.call_registry import CallRegistry
from oracle.txmgr.client.fee_quote import FeeMarket, compute_fees, fetch_fee_market
from oracle.txmgr.client.l1_fees import L1Fee
from oracle.txmgr.client.preflight import PreflightOutcome, PreflightResult, preflight_all
from oracle.txmgr.client.receipts import SimulatedCall, fetch_balance

_MAX_ENTRIES = 10_000
# First wait before a rebroadcast, in blocks, and maximum to which it doubles.
_FIRST_REBROADCAST_BLOCKS = 2
_MAX_REBROADCAST_BLOCKS = 8
# Maximum wait, in final blocks, before the transaction of a used nonce is searched for again.
_MAX_SEARCH_WAIT_BLOCKS = 64


@dataclass(slots=True)
class FirstSeenBlocks:
    """The block at which each planned call was first seen.

    The head start of the call begins at this block.
    """

    _first_block_by_intent: dict[int, int] = field(default_factory=dict)

    def record_first_block(self, intent_id: int, block_number: int) -> int:
        """Record the head at which a call is seen, and return its lowest recorded head.

        The lowest head is not always the first, because a reorg may lower the head.
        """
        if len(self._first_block_by_intent) > _MAX_ENTRIES:
            self._first_block_by_intent.clear()
        self._first_block_by_intent[intent_id] = min(
            block_number, self._first_block_by_intent.get(intent_id, block_number)
        )
        return self._first_block_by_intent[intent_id]


@dataclass(slots=True)
class SearchBackoff:
    """Delays repeated searches for the transaction that used a nonce.

    By nonce, a value contains the final block at which the next search is due, and the wait after
    this search, in final blocks.
    """

    _next_search_by_nonce: dict[int, tuple[int, int]] = field(default_factory=dict)

    def is_due(self, nonce: int, final_block: int) -> bool:
        """Return whether a search is due.

        The first search is due at once, and the next ones after 1, 2, 4 … blocks.
        """
        return final_block >= self._next_search_by_nonce.get(nonce, (0, 1))[0]

    def record_failure(self, nonce: int, final_block: int) -> None:
        """Record that a search found nothing, and double the wait."""
        wait_blocks = self._next_search_by_nonce.get(nonce, (0, 1))[1]
        self._next_search_by_nonce[nonce] = (
            final_block + wait_blocks,
            min(2 * wait_blocks, _MAX_SEARCH_WAIT_BLOCKS),
        )


@dataclass(slots=True)
class RebroadcastBackoff:
    """The number of blocks to wait before each attempt is sent again, by attempt id."""

    _wait_blocks_by_attempt: dict[int, int] = field(default_factory=dict)

    def get_wait_blocks(self, attempt_id: int) -> int:
        """Return how many blocks lie between an attempt's last broadcast and the next."""
        return self._wait_blocks_by_attempt.get(attempt_id, _FIRST_REBROADCAST_BLOCKS)

    def double_wait(self, attempt_id: int) -> None:
        """Double the wait of an attempt whose last result was the same as before."""
        if len(self._wait_blocks_by_attempt) > _MAX_ENTRIES:
            self._wait_blocks_by_attempt.clear()
        doubled_wait_blocks = 2 * self.get_wait_blocks(attempt_id)
        self._wait_blocks_by_attempt[attempt_id] = min(
            doubled_wait_blocks, _MAX_REBROADCAST_BLOCKS
        )

    def reset_wait(self, attempt_id: int) -> None:
        """Reset the wait of an attempt whose result has changed."""
        self._wait_blocks_by_attempt.pop(attempt_id, None)


# Seconds for which simulations must have had no result before the operator is notified.
MAX_BLOCKED_SECONDS = 120
# Seconds without a simulation after which earlier simulations without a result are disregarded.
_BLOCKED_SPAN_SECONDS = 900


@dataclass(slots=True)
class BlockedSimulations:
    """Tracks since when simulations have had no result, by contract and selector.

    The time is not kept for each call, because each new report replaces the calls that wait. Each
    value contains the times of the first and of the last simulation without a result (in seconds),
    and the reason of the last one.
    """

    _span_by_function: dict[tuple[Address, str], tuple[float, float, str]] = field(
        default_factory=dict
    )

    def record_results(
        self, calls: Sequence[SimulatedCall], results: Sequence[PreflightResult], now: float
    ) -> None:
        """Record the results of simulations.

        A function counts as working again only if all of its calls have a result. Otherwise calls
        with a result would hide that endpoints contradict each other about other calls.
        """
        reason_by_function: dict[tuple[Address, str], str | None] = {}
        for call, result in zip(calls, results, strict=True):
            function_key = call.to, call.calldata[:SELECTOR_DIGITS]
            is_unknown = result.outcome is PreflightOutcome.UNKNOWN
            if is_unknown or function_key not in reason_by_function:
                reason_by_function[function_key] = result.reason if is_unknown else None
        for function_key, reason in reason_by_function.items():
            if reason is None:
                self._span_by_function.pop(function_key, None)
                continue
            first_seen_at, last_seen_at, _ = self._span_by_function.get(
                function_key, (now, now, "")
            )
            first_seen_at = now if now - last_seen_at > _BLOCKED_SPAN_SECONDS else first_seen_at
            self._span_by_function[function_key] = first_seen_at, now, reason

    def find_reason(self, now: float) -> str | None:
        """Return why some calls could not be sent for two minutes, or None."""
        for first_seen_at, last_seen_at, reason in list(self._span_by_function.values()):
            was_seen_recently = now - last_seen_at <= _BLOCKED_SPAN_SECONDS
            if was_seen_recently and last_seen_at - first_seen_at >= MAX_BLOCKED_SECONDS:
                blocked_seconds = now - first_seen_at
                return (
                    f"simulations have had no clear result for {blocked_seconds:.0f} s: {reason}"
                )
        return None


@dataclass(frozen=True, slots=True)
class SendSettings:
    """The settings of `[limits]` other than amounts (docs/explanation/transactions.md#fees).

    The fee of a transaction is bumped when `bump_blocks` blocks and `bump_seconds` seconds of
    chain time have passed. At most `max_attempts` transactions are signed for a nonce.
    `max_in_flight` limits the number of the account's nonces that are not final; if it is None,
    the planner sets the limit. `l1_fee` is the fee model of the rollup. A call is not signed if
    its deadline is nearer than a margin, which is at most `max_margin_seconds`.
    """

    bump_blocks: int = 3
    bump_seconds: int = 30
    max_attempts: int = 10
    max_in_flight: int | None = 64
    l1_fee: L1Fee = L1Fee.NONE
    max_margin_seconds: int = 300


@dataclass(frozen=True, slots=True)
class TransmitterRank:
    """The rank of this transmitter among those that send the same calls.

    If there are other transmitters, those of a lower rank have a head start for each call:
    `head_start_blocks` blocks, and `head_start_seconds` of chain time, which the planner applies.
    After the head start, the transaction pool is checked for their calls.
    """

    has_others: bool = False
    head_start_seconds: int = 0
    head_start_blocks: int = 0


# Number of blocks by which an index may be behind the head and still count as synced. A call that
# is simulated on the newest block runs in that block, and a contract cannot read the hash of the
# current block.
BLOCKS_UNDER_HEAD = 2


@dataclass(frozen=True, slots=True)
class StepResult:
    """The result of one step, logged as one line.

    `intent_id` is the id of the intent in the outbox, or None if the step concerns no intent.
    """

    action: str
    intent_id: int | None = None
    detail: str = ""


def merge_results(action: str, results: Sequence[StepResult]) -> StepResult | None:
    """Merge several results into one that counts them.

    A single result is returned unchanged.
    """
    if len(results) < 2:  # noqa: PLR2004
        return results[0] if results else None
    return StepResult(
        action, results[0].intent_id, format_name_counts([result.action for result in results])
    )


def format_name_counts(names: Sequence[str]) -> str:
    """Format how often each name occurs, in the order of first occurrence."""
    return ", ".join(f"{names.count(name)} {name}" for name in dict.fromkeys(names))


@dataclass(frozen=True, slots=True)
class AccountContext:
    """The objects and settings that are needed to send calls from an account.

    A context exists only where sending is configured. `registry` contains the kinds of calls that
    are sent. `epoch` is the epoch of the lease; every write checks it, so that a process without
    the lease cannot write. `clock` returns unix seconds for the journal and the daily budget,
    whereas deadlines are in chain time. `confirmations` is the number of blocks required on top of
    a receipt's block, in addition to finality; a final block has at least `finality_depth` blocks
    on top. `batch_size` is the maximum number of calls in one step, and `role` the account's label
    in metrics. `actor` is the OS user of a command, or None for the daemon.
    """

    store: Store
    sender_account: SenderAccount
    registry: CallRegistry
    epoch: int
    clock: Callable[[], float]
    confirmations: int
    finality_depth: int
    batch_size: int = 1
    role: str = "transmitter"
    send_settings: SendSettings = field(default_factory=SendSettings)
    rank: TransmitterRank = field(default_factory=TransmitterRank)
    actor: str | None = None
    # For each planned call, the block since which it has waited, so that transmitters of a lower
    # rank can send the same call first.
    first_seen: FirstSeenBlocks = field(default_factory=FirstSeenBlocks)
    # Time at which the transactions of used nonces are searched for again.
    search_backoff: SearchBackoff = field(default_factory=SearchBackoff)
    # Time that each attempt waits before it is sent again.
    rebroadcast_backoff: RebroadcastBackoff = field(default_factory=RebroadcastBackoff)
    # Time since which simulations have had no result.
    blocked_simulations: BlockedSimulations = field(default_factory=BlockedSimulations)

    @property
    def account(self) -> Account:
        """The account from which transactions are sent."""
        return Account(self.sender_account.domain.chain_id, self.sender_account.sender)

    @property
    def stamp(self) -> Stamp:
        """The time, lease epoch and actor to store with the next write."""
        return Stamp(int(self.clock()), self.epoch, self.actor)

    @contextmanager
    def write_transaction(self) -> Iterator[UnitOfWork]:
        """Open a write transaction, which fails if this process has lost the lease.

        Raises:
            FatalError: another process has taken over the lease.
        """
        with self.store.transaction() as uow:
            uow.lease.lock_held_lease(self.epoch)
            yield uow

    def check_can_send(self) -> None:
        """Check that the lease is held and the database is writable.

        If the database were not writable, the result of a broadcast could not be stored, and the
        same transactions would be sent again and again.

        Raises:
            FatalError: another process has taken over the lease.
            TransientError: the database is not writable.
        """
        with self.store.transaction() as uow:
            uow.lease.verify_lease_by_write(self.epoch)

    def get_synced_pool_view(self) -> PoolView:
        """Return a view of the endpoints that have the indexed block.

        If no endpoint has this block, the view contains all endpoints.
        """
        with self.store.read_transaction() as uow:
            cursor = uow.cursor.get()
        folded_block = 0 if cursor is None else cursor.number
        return self.sender_account.pool_view.with_head_at_least(folded_block - BLOCKS_UNDER_HEAD)

    def preflight(self, calldata: str, contract: Address | None = None) -> PreflightResult:
        """Simulate a call on the synced endpoints.

        `contract` defaults to the account's contract.
        """
        recipient = contract or self.sender_account.domain.contract
        call = SimulatedCall(self.account.address, recipient, calldata)
        return self.preflight_all([call])[0]

    def preflight_all(self, calls: Sequence[SimulatedCall]) -> list[PreflightResult]:
        """Simulate several calls on the synced endpoints, with one batch per endpoint."""
        if not calls:
            return []
        preflight_results = preflight_all(
            self.get_synced_pool_view(), calls, self.registry.decode_refusal
        )
        self.blocked_simulations.record_results(calls, preflight_results, self.clock())
        return preflight_results

    def fetch_fee_market(self) -> FeeMarket:
        """Fetch the fee market from the synced endpoints.

        The fees of other endpoints are stale.

        Raises:
            TransientError: no endpoint answers.
        """
        return fetch_fee_market(self.get_synced_pool_view(), self.sender_account.caps)

    def is_market_fee_above(self, max_fee: int) -> bool:
        """Return whether the market's fee exceeds `max_fee`, in wei per gas.

        The result is False if `max_fee` is not below the account's cap, which is checked when a
        call is priced. No endpoint is then queried.

        Raises:
            TransientError: no endpoint answers.
        """
        if max_fee >= self.sender_account.caps.fee_per_gas:
            return False
        fee_market = self.fetch_fee_market()
        return fee_market.base_fee + fee_market.tip > max_fee

    def quote_fees(self, cap: int | None = None) -> Fees | None:
        """Return the fees for a transaction sent now, or None if the caps are too low.

        Raises:
            TransientError: no endpoint answers.
        """
        max_fee = self.sender_account.caps.fee_per_gas
        return compute_fees(self.fetch_fee_market(), max_fee if cap is None else min(max_fee, cap))

    def fetch_balance(self) -> int:
        """Fetch the current balance in wei from the synced endpoints.

        Raises:
            TransientError: no endpoint answers.
        """
        return fetch_balance(self.get_synced_pool_view(), self.account.address)

    def is_halted(self) -> bool:
        """Return whether a halt is active, which stops all planning and sending."""
        with self.store.read_transaction() as uow:
            return uow.halts.find_halt_reason() is not None

    def is_at_head(self, uow: UnitOfWork, heads: Heads) -> bool:
        """Return whether indexing has reached the head.

        Then the indexed state is current.
        """
        cursor = uow.cursor.get()
        return cursor is not None and cursor.number >= heads.latest.number - BLOCKS_UNDER_HEAD

    def correct_newest_time(self, heads: Heads) -> Heads:
        """Return the heads with a plausible time of the newest block.

        The time is limited by the time of the indexed block. A single endpoint reports the heads.
        If it reported a later time, the deadline of every call would seem to have passed. A block
        that is not indexed yet may be up to two minutes later than the indexed block. Nothing is
        corrected while indexing is behind the head.
        """
        with self.store.read_transaction() as uow:
            cursor = uow.cursor.get()
            if cursor is None or not self.is_at_head(uow, heads):
                return heads
        latest = heads.latest
        max_time = cursor.time + (MAX_BLOCKED_SECONDS if latest.number > cursor.number else 0)
        time = min(max(latest.time, cursor.time), max_time)
        return heads if time == latest.time else replace(heads, latest=latest._replace(time=time))

    def is_final(self, block_number: int, heads: Heads) -> bool:
        """Return whether a block is final and has the required confirmations."""
        # The depth is counted from the final block, because a single endpoint may have made up the
        # newest block.
        additional_depth = max(0, self.confirmations - self.finality_depth)
        return block_number <= heads.final.number - additional_depth


class WriteAttemptedError(Exception):
    """Raised when a dry run reaches a point where the real run would write or send."""


@dataclass(frozen=True, slots=True)
class DryRunContext(AccountContext):
    """A context that raises an error on every write, send and signature."""

    @override
    def write_transaction(self) -> NoReturn:
        raise WriteAttemptedError

    @override
    def check_can_send(self) -> NoReturn:
        raise WriteAttemptedError


@contextmanager
def describe_write(dry_run_text: str) -> Iterator[None]:
    """Let a dry run show `dry_run_text` in place of the write in this block."""
    try:
        yield
    except WriteAttemptedError:
        raise WriteAttemptedError(dry_run_text) from None


def build_dry_run_context(context: AccountContext) -> DryRunContext:
    """Return a copy of the context for a dry run."""
    values_by_field = {field.name: getattr(context, field.name) for field in fields(context)}
    return DryRunContext(
        **{**values_by_field, "sender_account": context.sender_account.to_read_only()}
    )


def describe_dry_run(action: Callable[[], StepResult | None], fallback_text: str) -> str | None:
    """Run an action as a dry run, and describe what it would do.

    Return None if the action has no effect. If the action would write or send without a new
    signature, the result is the text of the write (`describe_write`), or `fallback_text` if it has
    none.

    Raises:
        OracleError: the action failed.
    """
    try:
        step_result = action()
    except DryRunSignatureError as error:
        return str(error)
    except WriteAttemptedError as error:
        return str(error) or fallback_text
    return None if step_result is None else f"{step_result.action} {step_result.detail}".rstrip()
