"""The context of a reporter in a quorum, and why its next report lacks signatures."""

from dataclasses import dataclass, field

from oracle.bindings.qos_roots import RootsContract, RootsStatus
from oracle.domain.blocks import BlockRef
from oracle.domain.ids import Hash
from oracle.domain.reports.report import ReportSettings
from oracle.domain.reports.rules_changes import get_rules_in_force
from oracle.errors import TransientError
from oracle.quorum.peer_client import PeerClients
from oracle.quorum.wire_format import Board
from oracle.store.database import UnitOfWork
from oracle.store.state.cursor_repository import Cursor
from oracle.telemetry.rpc_metrics import INCONSISTENT
from oracle.txmgr.context import BLOCKS_UNDER_HEAD, MAX_BLOCKED_SECONDS, AccountContext


@dataclass(slots=True)
class MissingSignatures:
    """The reasons why the next report lacks signatures, set when a push is planned.

    `missing_reason` lists the signers that have not signed the scheduled report for a while.
    `refusal_reason` is why this reporter's key did not sign when it was requested last.
    `signer_reason` is why this reporter's signatures do not count. `evidence_reason` is why this
    reporter does not sign a report that makes a kickout due. `status_reason` is why the contract
    status is not used: every endpoint that responds contradicts the indexed events. A reason that
    does not apply is None.
    """

    missing_reason: str | None = None
    refusal_reason: str | None = None
    signer_reason: str | None = None
    evidence_reason: str | None = None
    status_reason: str | None = None
    # When the contract's state first contradicted the indexed events: the number of the newest
    # block, this machine's time, and the time of the indexed block.
    _first_contradiction: tuple[int, int, int] | None = field(default=None, repr=False)
    # Digest of the statement that is waiting for signatures, and the chain time at which the wait
    # began.
    _waiting_statement: tuple[Hash, int] | None = field(default=None, repr=False)

    @property
    def reason(self) -> str | None:
        """The most important reason, or None if no reason applies."""
        return (
            self.signer_reason
            or self.refusal_reason
            or self.status_reason
            or self.evidence_reason
            or self.missing_reason
        )

    def record_status_mismatch(
        self, mismatch: str | None, newest_block: BlockRef, now: int, indexed_block: Cursor
    ) -> None:
        """Record how the contract's status differs from the indexed events.

        None records that they agree. A new round is in the status before its event is indexed.
        Therefore a mismatch is a reason only after two minutes of chain time, and once the block
        at which it began is indexed. The time is that of indexed blocks, because the endpoint's
        newest block may be false as well. If its number is invented, the index never reaches it.
        Therefore a block that is later than `now`, this machine's time, at the first mismatch is
        enough.
        """
        if mismatch is None:
            self.status_reason = self._first_contradiction = None
            return
        self._first_contradiction = self._first_contradiction or (
            newest_block.number,
            now,
            indexed_block.time,
        )
        since_block, since_clock_time, since_time = self._first_contradiction
        is_blocked_too_long = indexed_block.time - since_time >= MAX_BLOCKED_SECONDS
        is_indexed = indexed_block.number >= since_block or indexed_block.time > since_clock_time
        if is_blocked_too_long and is_indexed:
            self.status_reason = mismatch

    def record_statement_without_quorum(self, digest: Hash, block_time: int) -> int:
        """Record that a statement lacks signatures.

        The result is the block time of the first record.
        """
        if self._waiting_statement is None or self._waiting_statement[0] != digest:
            self._waiting_statement = (digest, block_time)
        return self._waiting_statement[1]

    def clear(self) -> None:
        """Reset the reasons, because the scheduled report no longer lacks signatures."""
        self.missing_reason = self.evidence_reason = self._waiting_statement = None


@dataclass(frozen=True, slots=True)
class QuorumContext:
    """The context of a reporter in a k-of-n quorum.

    `account_context` contains the account that sends and the key that signs. `board` publishes
    this reporter's statements, and `peers` fetches the statements of the other reporters.
    `report_settings` contains the time to live of a statement.
    """

    account_context: AccountContext
    report_settings: ReportSettings
    board: Board | None = None
    peers: PeerClients | None = None
    # Reasons for which the next report still lacks signatures for a quorum.
    missing: MissingSignatures = field(default_factory=MissingSignatures)

    def get_contract(self) -> RootsContract:
        """Return the oracle contract, which is read from synced endpoints."""
        return RootsContract(
            self.account_context.get_synced_pool_view(),
            self.account_context.sender_account.domain.contract,
        )

    def fetch_contract_status(self) -> RootsStatus:
        """Fetch the contract's status at the newest block of an endpoint.

        If the status of an endpoint contradicts the indexed events, the status of another endpoint
        is used that agrees with the events. Otherwise one endpoint that returns a false status
        could stop all reports and kickouts. The number of the newest block decides nothing,
        because the endpoint may have invented it.

        Raises:
            TransientError: no endpoint answers, or none has the contract.
        """
        address = self.account_context.sender_account.domain.contract
        contradicting_status: RootsStatus | None = None
        mismatches: dict[str, str] = {}
        refuted_endpoints: list[str] = []
        failures: list[TransientError] = []
        for view in self.account_context.get_synced_pool_view().build_single_endpoint_views():
            try:
                status = RootsContract(view, address).fetch_status()
            except TransientError as error:
                failures.append(error)
                continue
            with self.account_context.store.read_transaction() as uow:
                mismatch = find_status_mismatch(uow, status)
                is_comparable = _must_status_agree(uow, status.block)
            if mismatch is None:
                for endpoint in refuted_endpoints:
                    INCONSISTENT.labels(endpoint, "contract").inc()
                self._record_mismatches({}, status.block)
                return status
            contradicting_status = contradicting_status or status
            mismatches[view.callers[0].name] = mismatch
            if is_comparable:
                refuted_endpoints.append(view.callers[0].name)
        if contradicting_status is None:
            raise failures[0]
        self._record_mismatches(mismatches, contradicting_status.block)
        return contradicting_status

    def _record_mismatches(self, mismatches: dict[str, str], newest_block: BlockRef) -> None:
        """Record how each endpoint's contract status differs from the indexed events.

        If the status of one endpoint agrees, the record is cleared.
        """
        with self.account_context.store.read_transaction() as uow:
            cursor = uow.cursor.get()
        if cursor is None:
            return
        mismatches_text = "; ".join(
            f"{endpoint}: {detail}" for endpoint, detail in mismatches.items()
        )
        self.missing.record_status_mismatch(
            f"the oracle contract's state contradicts its indexed events ({mismatches_text}); "
            "check these endpoints, or add another to [chain] endpoints"
            if mismatches
            else None,
            newest_block,
            int(self.account_context.clock()),
            cursor,
        )


def find_status_mismatch(uow: UnitOfWork, status: RootsStatus) -> str | None:
    """Return the first difference between a contract status and the indexed events, if any.

    A setting that no indexed event announces is not compared, nor is a pause that has ended.
    """
    cursor = uow.cursor.get()
    block_mismatch = None if cursor is None else _find_block_mismatch(uow, cursor, status.block)
    if block_mismatch is not None:
        return block_mismatch
    last_round, last_root = uow.rounds.get_last_round_and_root()
    accepted_round = uow.rounds.find_accepted_round(last_round)
    settings = uow.rounds.get_contract_settings()
    rules = get_rules_in_force(settings.rules_changes)
    config, signers, pause = settings.config, settings.signers, settings.pause
    limits, kick_limits = settings.limits, settings.kick_limits
    now = status.block.time
    comparisons: tuple[tuple[str, object, object], ...] = (
        ("last round", last_round, status.head.round),
        ("last root", last_root, status.last_root),
        (
            "time of the last round",
            accepted_round.time if accepted_round else 0,
            status.head.pushed_at,
        ),
        (
            "end of the pause",
            max(now, pause.until if pause else 0),
            max(now, status.head.paused_until),
        ),
        ("rules hash", rules and rules.rules_hash, status.rules_hash),
        ("quorum", signers and signers.quorum, status.head.quorum),
        ("list of signers", signers and signers.signers, status.signers),
        ("configuration", config and config.digest, status.config),
        ("configuration count", config and config.count, status.head.config_count),
        ("limits", limits and limits.limits, status.limits),
        ("limits of kickouts", kick_limits and kick_limits.limits, status.kick_limits),
    )
    return next(
        (
            f"its {name} is {actual_value}, but {expected_value} by the events"
            for name, expected_value, actual_value in comparisons
            if expected_value is not None and expected_value != actual_value
        ),
        None,
    )


def _must_status_agree(uow: UnitOfWork, block: BlockRef) -> bool:
    """Return whether the status of a correct endpoint at this block agrees with the events.

    Before or after the newest indexed block, or on a short fork beside it, the status of a correct
    endpoint may differ from the events for a moment.
    """
    cursor = uow.cursor.get()
    if cursor is None:
        return False
    is_final = cursor.final_number is not None and block.number <= cursor.final_number
    return is_final or block.hash == cursor.hash


def _find_block_mismatch(uow: UnitOfWork, cursor: Cursor, block: BlockRef) -> str | None:
    """Return how a contract status's block differs from the indexed blocks, if it does.

    A later block must fit the time of the indexed block, because a report is not sent after its
    deadline. With a feed, the time may be any later one, because the index follows the chain only
    up to the time until which the feed is settled. An earlier block must be one of the few blocks
    by which an endpoint may lag. An endpoint could otherwise return an old time, for which no
    report is due.
    """
    if block.number < cursor.number - BLOCKS_UNDER_HEAD:
        return f"its newest block is {block.number}, but block {cursor.number} is indexed"
    indexed_block = uow.blocks.find_canonical(block.number)
    if indexed_block is not None and indexed_block != block:
        return (
            f"its block {block.number} is {block.hash} at {block.time}, but the indexed block is "
            f"{indexed_block.hash} at {indexed_block.time}"
        )
    seconds_ahead = block.time - cursor.time
    is_earlier = seconds_ahead < 0 and block.number >= cursor.number
    is_too_late = seconds_ahead > MAX_BLOCKED_SECONDS and uow.feed.get_cursor() is None
    if is_earlier or is_too_late:
        return (
            f"its block {block.number} is at {block.time}, but the indexed block {cursor.number} "
            f"is at {cursor.time}"
        )
    return None
