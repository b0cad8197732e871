"""The context of a reporter in a quorum, and why its report still lacks signatures."""

from dataclasses import dataclass, field

from oracle.bindings.qos_roots import RootsContract, RootsStatus
from oracle.domain.ids import Hash
from oracle.domain.reports.report import ReportSettings
from oracle.errors import TransientError
from oracle.quorum.peer_client import PeerClients
from oracle.quorum.wire_format import Board
from oracle.telemetry.rpc_metrics import INCONSISTENT
from oracle.txmgr.context import AccountContext


@dataclass(slots=True)
class MissingSignatures:
    """The reasons why the next report lacks signatures; they are set when a push is planned.

    `missing_reason` lists the signers that have not signed the scheduled report for a while.
    `signer_reason` is why this reporter's signatures do not count. `evidence_reason` is why this
    reporter does not sign a report that makes a kickout due. A reason that does not apply is None.
    """

    missing_reason: str | None = None
    signer_reason: str | None = None
    evidence_reason: str | None = None
    # The digest of the statement that waits for signatures, and since when (chain time, seconds).
    _waiting_since: tuple[Hash, int] | None = field(default=None, repr=False)

    @property
    def reason(self) -> str | None:
        """The most important of the reasons, or None if no reason applies."""
        return self.signer_reason or self.evidence_reason or self.missing_reason

    def record_statement_without_quorum(self, digest: Hash, block_time: int) -> int:
        """Record that a statement lacks signatures; return the block time of the first record."""
        if self._waiting_since is None or self._waiting_since[0] != digest:
            self._waiting_since = (digest, block_time)
        return self._waiting_since[1]

    def clear(self) -> None:
        """Reset all reasons, because no signature is missing any more."""
        self.missing_reason = self.evidence_reason = self._waiting_since = None


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
    # Why the next report lacks signatures for a quorum.
    missing: MissingSignatures = field(default_factory=MissingSignatures)

    def get_contract(self) -> RootsContract:
        """Return the oracle contract, read from synced endpoints."""
        return RootsContract(
            self.account_context.get_synced_pool_view(),
            self.account_context.sender_account.domain.contract,
        )

    def fetch_contract_status(self) -> RootsStatus:
        """Fetch the contract status at the newest block of one endpoint.

        If the status of an endpoint contradicts the indexed events, the status of another endpoint
        is used that agrees with the events, at the same block or a later one. Otherwise one
        endpoint that returns a false status could stop all reports and kickouts.

        Raises:
            TransientError: no endpoint answers, or none has the contract.
        """
        address = self.account_context.sender_account.domain.contract
        statuses: dict[str, RootsStatus] = {}
        failures: list[TransientError] = []
        for view in self.account_context.get_synced_pool_view().build_single_endpoint_views():
            try:
                status = RootsContract(view, address).fetch_status()
            except TransientError as error:
                failures.append(error)
                continue
            newest_number = max((earlier.block.number for earlier in statuses.values()), default=0)
            if status.block.number >= newest_number and self._agrees_with_events(status):
                for endpoint in statuses:
                    INCONSISTENT.labels(endpoint, "contract").inc()
                return status
            statuses[view.callers[0].name] = status
        if not statuses:
            raise failures[0]
        return next(iter(statuses.values()))

    def _agrees_with_events(self, status: RootsStatus) -> bool:
        """Return whether last round and configuration are the same as in the indexed events."""
        with self.account_context.store.read_transaction() as uow:
            last_round = uow.rounds.get_last_round_and_root()
            config = uow.rounds.get_contract_settings().config
        is_same_config = config is None or status.config == config.digest
        return is_same_config and last_round == (status.head.round, status.last_root)
