"""The context of a reporter in a quorum, and the signatures that its report still lacks."""

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
    """Why the next report lacks signatures; written only when a push is planned.

    `missing_reason` lists the signers that have not signed the scheduled report for a while.
    `signer_reason` is why this reporter's signatures do not count. `evidence_reason` is why it
    does not sign a report that makes a kickout due. Each is None if no signature is missing for
    that reason.
    """

    missing_reason: str | None = None
    signer_reason: str | None = None
    evidence_reason: str | None = None
    # The statement that lacks signatures of others, and since when, in chain time.
    _waiting_since: tuple[Hash, int] | None = field(default=None, repr=False)

    @property
    def reason(self) -> str | None:
        """The reason to show first, or None."""
        return self.signer_reason or self.evidence_reason or self.missing_reason

    def record_statement_without_quorum(self, digest: Hash, block_time: int) -> int:
        """Record that a statement lacks signatures; return the chain time since when."""
        if self._waiting_since is None or self._waiting_since[0] != digest:
            self._waiting_since = (digest, block_time)
        return self._waiting_since[1]

    def clear(self) -> None:
        """Record that no signature is missing."""
        self.missing_reason = self.evidence_reason = self._waiting_since = None


@dataclass(frozen=True, slots=True)
class QuorumContext:
    """The context of a reporter in a k-of-n quorum.

    `account_context` holds the account that sends and the key that signs. `board` publishes this
    reporter's statements to the others, and `peers` are the clients that fetch theirs.
    `report_settings` holds the time to live of a statement.
    """

    account_context: AccountContext
    report_settings: ReportSettings
    board: Board | None = None
    peers: PeerClients | None = None
    # The signatures that the next report still lacks for a quorum.
    missing: MissingSignatures = field(default_factory=MissingSignatures)

    def get_contract(self) -> RootsContract:
        """Return the oracle contract, read from synced endpoints."""
        return RootsContract(
            self.account_context.get_synced_pool_view(),
            self.account_context.sender_account.domain.contract,
        )

    def fetch_contract_status(self) -> RootsStatus:
        """Fetch the contract status at the newest block of one endpoint.

        The status of an endpoint that contradicts the indexed events is passed over if another
        endpoint, at the same block or later, agrees with the events. Otherwise one endpoint with a
        false status would stop all reports and kickouts.

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
        """Return whether the last round and the configuration are those of the indexed events."""
        with self.account_context.store.read_transaction() as uow:
            last_round = uow.rounds.get_last_round_and_root()
            config = uow.rounds.get_contract_settings().config
        is_same_config = config is None or status.config == config.digest
        return is_same_config and last_round == (status.head.round, status.last_root)
