"""The context of a quorum: the other reporters, and the signatures still missing."""

from dataclasses import dataclass, field

from oracle.bindings.qos_oracle import ContractStatus, OracleContract
from oracle.domain.ids import Hash
from oracle.domain.reports.report import ReportSettings
from oracle.quorum.board import Board
from oracle.quorum.peer_client import PeerClients
from oracle.txmgr.context import TxContext


@dataclass(slots=True)
class MissingSignatures:
    """Written by the planning of a push alone; None: nothing lacks.

    `signatures`: who has not signed the report that has the turn, where that lasts.
    `contract_status`: why what our own signer signs counts for nothing.
    """

    missing_reason: str | None = None
    signer_reason: str | None = None
    # The statement that others have not signed, and since which second of the chain.
    _waiting_since: tuple[Hash, int] | None = field(default=None, repr=False)

    @property
    def reason(self) -> str | None:
        """Return what a person has to know first."""
        return self.signer_reason or self.missing_reason

    def record_waiting(self, digest: Hash, block_time: int) -> int:
        """Note that a statement lacks signatures; return since when, in chain time."""
        if self._waiting_since is None or self._waiting_since[0] != digest:
            self._waiting_since = (digest, block_time)
        return self._waiting_since[1]

    def clear(self) -> None:
        """Note that no signature lacks."""
        self.missing_reason = self._waiting_since = None


@dataclass(frozen=True, slots=True)
class QuorumContext:
    """One reporter among k of n. `tx`: the account that sends, and the key that signs.

    `board` shows what is signed here to the other reporters, `peers`. `settings`: how long a
    statement lives.
    """

    tx: TxContext
    settings: ReportSettings
    board: Board | None = None
    peers: PeerClients | None = None
    # What the next report still lacks of a quorum.
    missing: MissingSignatures = field(default_factory=MissingSignatures)

    def get_contract(self) -> OracleContract:
        """Return the oracle contract, read from synced endpoints."""
        return OracleContract(self.tx.get_synced_pool_view(), self.tx.publisher.domain.contract)

    def fetch_contract_status(self) -> ContractStatus:
        """Fetch the contract status at the newest block.

        Raises:
            TransientError: no endpoint answers, or none has the contract.
        """
        return self.get_contract().get_status()
