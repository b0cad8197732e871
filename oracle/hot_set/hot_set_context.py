"""The context of the hot set's jobs: the contract, the fee limit, and the writing progress."""

from dataclasses import dataclass, field

from oracle.bindings.qos_words import WordsConfiguration, WordsContract
from oracle.domain.blocks import BlockRef
from oracle.domain.ids import Address, Hash
from oracle.hot_set.hot_set_rounds import measure_hot_set_lag
from oracle.indexer.round_leaves import LeafCache
from oracle.quorum.quorum_context import QuorumContext
from oracle.telemetry.outbox_counts import HotSetLag
from oracle.txmgr.context import AccountContext


@dataclass(slots=True)
class HotSetProgress:
    """The part of the hot set known to be up to date; a restart or a reorg resets it.

    `words_root` is the root of the newest round after which no words are left to write, and
    `seats_root` the root of the newest round after which no seats are left to bind. The nodes of
    all seats below `bound_seats` are bound. `reorg_id` is the id of the newest reorg at the time
    of the read. `configuration` never changes.
    """

    words_root: Hash | None = None
    seats_root: Hash | None = None
    bound_seats: int = 0
    reorg_id: int = 0
    configuration: WordsConfiguration | None = None

    def is_complete(self, root: Hash) -> bool:
        """Return whether all words and seats of the round with this root are written."""
        return self.words_root == self.seats_root == root

    def reset_after_reorg(self, reorg_id: int) -> None:
        """Reset the progress after a reorg, which may have removed a mined call."""
        if reorg_id != self.reorg_id:
            self.words_root = self.seats_root = None
            self.bound_seats, self.reorg_id = 0, reorg_id


@dataclass(frozen=True, slots=True)
class HotSetContext:
    """Settings and helpers for keeping the hot set up to date.

    `address` is the address of the contract QoSWords. Nothing is planned while the current fee
    exceeds `max_fee` (wei per gas).
    """

    quorum: QuorumContext
    address: Address
    max_fee: int
    leaf_cache: LeafCache = field(default_factory=LeafCache)
    progress: HotSetProgress = field(default_factory=HotSetProgress)

    @property
    def account_context(self) -> AccountContext:
        """The context of the sending account."""
        return self.quorum.account_context

    def get_contract(self) -> WordsContract:
        """Return the hot set contract, which is read from synced endpoints."""
        return WordsContract(self.account_context.get_synced_pool_view(), self.address)

    def measure_lag(self, block: BlockRef) -> HotSetLag | None:
        """Return how far the hot set lags behind at a block; see `measure_hot_set_lag`."""
        return measure_hot_set_lag(
            self.account_context.store, self.leaf_cache, self.get_contract(), block
        )

    def get_configuration(self, block: BlockRef) -> WordsConfiguration:
        """Return the contract's settings, which never change and are read only once.

        Raises:
            TransientError: no endpoint returns the contract's state.
        """
        if self.progress.configuration is None:
            self.progress.configuration = self.get_contract().fetch_configuration(block)
        return self.progress.configuration
