"""Reads the contract, the chain's head and an operator's account from the endpoints."""

from collections.abc import Callable
from dataclasses import dataclass

from pydantic import Field

from oracle.bindings.qos_roots import RootsContract, RootsStatus
from oracle.domain.blocks import BlockRef
from oracle.domain.fixed_point import format_decimal
from oracle.domain.ids import Address
from oracle.errors import TransientError
from oracle.queries.answers import AddressText, ApiModel, Integer
from oracle.rpc.fanout import PoolView
from oracle.rpc.pool import EndpointPool
from oracle.telemetry.outbox_counts import MAX_LAG_ROUNDS, ContractStatus, HotSetLag
from oracle.txmgr.client.receipts import fetch_balance, fetch_newest_block

# Maximum number of blocks by which a daemon may be behind the head and count as ready. An endpoint
# that is further behind is not used.
READY_WITHIN_BLOCKS = 10
# Maximum time that a status query waits for an endpoint. It is short, so that the query is quick.
_TIMEOUT_SECONDS = 3.0
# A function that returns how far the hot set is behind at a block.
HotSetMeasure = Callable[[PoolView, BlockRef], HotSetLag | None]
# Decimal places of ether amounts in text output.
_ETHER_DECIMALS = 6


@dataclass(frozen=True, slots=True)
class ChainView:
    """The newest block and the contract's state, as read from the chain.

    `contract` is None if there is no contract, or if its state is unknown. `unknown_reason` states
    why `head` or `contract` is unknown.
    """

    head: BlockRef | None
    contract: ContractStatus | None = None
    unknown_reason: str | None = None

    @property
    def paused_until(self) -> int | None:
        """The unix time until which the contract rejects reports, or None if not paused."""
        if self.contract is None or self.head is None:
            return None
        paused_until = self.contract.paused_until
        return paused_until if paused_until > self.head.time else None

    def build_contract_view(self) -> "ContractView":
        """Build the part of an answer that describes the contract."""
        contract = self.contract
        return ContractView(
            round=None if contract is None else contract.round,
            pushed_at=None if contract is None or not contract.round else contract.pushed_at,
            paused_until=self.paused_until,
            kicks_paused=None if contract is None else contract.kicks_paused,
            hot_set=None
            if contract is None or contract.hot_set_lag is None
            else HotSetView(**contract.hot_set_lag._asdict()),
            unknown=self.unknown_reason,
        )


class HotSetView(ApiModel):
    """How far the stored score words of the hot set lag behind the last round."""

    rounds_behind: int = Field(
        description="Number of newest rounds of which the hot set lacks a word; "
        f"{MAX_LAG_ROUNDS} means {MAX_LAG_ROUNDS} or more."
    )
    words_left: int = Field(
        description="Number of words (scores of 16 nodes) that the last round would change."
    )


class ContractView(ApiModel):
    """The known state of the contract; times in unix seconds of the chain."""

    round: int | None
    pushed_at: int | None = Field(
        description=(
            "Time of the last accepted round, in unix seconds; null if no round was accepted, "
            "or if the time is unknown."
        )
    )
    paused_until: int | None = Field(
        description=(
            "Time at which the contract accepts reports again, in unix seconds; null if the "
            "contract is not known to be paused."
        )
    )
    kicks_paused: bool | None
    hot_set: HotSetView | None = Field(
        default=None,
        description=(
            "State of the hot set; null if this reporter keeps none, or if its lag is unknown."
        ),
    )
    unknown: str | None = Field(
        description="Why a value is unknown; null if all values are known."
    )


class AccountBalance(ApiModel):
    """An account of the operator, with its balance in wei."""

    address: AddressText | None
    balance_wei: Integer | None
    unknown: str | None = Field(
        default=None,
        description="Why the address or the balance is unknown; null if both are known.",
    )

    def to_text(self) -> str:
        """Format the address and its balance in ether, rounded down."""
        if self.balance_wei is None:
            return f"{self.address or 'unknown'}, balance unknown: {self.unknown}"
        ether_text = format_decimal(self.balance_wei, _ETHER_DECIMALS)
        return f"{self.address}, {ether_text} ether"


def fetch_chain_view(
    endpoints: EndpointPool,
    contract: str | None,
    folded_block: int | None = None,
    measure_hot_set: HotSetMeasure | None = None,
) -> ChainView:
    """Read the chain's head and the contract's state from the eligible endpoints.

    Each endpoint is queried at most once, with a timeout of three seconds. An endpoint that has
    not reached block `folded_block`, the last block of the index, is ignored, because its response
    is out of date. `contract` is the oracle's address, or None if there is no contract.
    `measure_hot_set` is None if no hot set is kept.
    """
    try:
        responsive_view = endpoints.create_view(_TIMEOUT_SECONDS).with_known_chain(
            endpoints.chain_id
        )
        responsive_view.check_chain(endpoints.chain_id)
        synced_view = (
            responsive_view
            if folded_block is None
            else responsive_view.with_head_at_least(folded_block)
        )
        view = _read_chain_view(synced_view, contract, measure_hot_set)
    except TransientError as error:
        return ChainView(None, unknown_reason=str(error))
    if view.head is not None and view.head.number < (folded_block or 0) - READY_WITHIN_BLOCKS:
        return ChainView(None, unknown_reason=f"the endpoint is only at block {view.head.number}")
    return view


def _read_chain_view(
    pool_view: PoolView, address: str | None, measure_hot_set: HotSetMeasure | None
) -> ChainView:
    if address is None:
        return ChainView(fetch_newest_block(pool_view))
    roots_status = RootsContract(pool_view, Address(address)).fetch_status()
    hot_set_lag = (
        None if measure_hot_set is None else measure_hot_set(pool_view, roots_status.block)
    )
    return ChainView(roots_status.block, build_contract_status(roots_status, hot_set_lag))


def build_contract_status(
    roots_status: RootsStatus, hot_set_lag: HotSetLag | None
) -> ContractStatus:
    """Return the contract's state, including the lag of its hot set.

    `hot_set_lag` is None if no hot set is kept; the state then has no lag.
    """
    head = roots_status.head
    return ContractStatus(
        round=head.round,
        pushed_at=head.pushed_at,
        as_of_lag_blocks=max(0, roots_status.block.number - head.as_of) if head.round else 0,
        paused_until=head.paused_until,
        kicks_paused=head.kicks_paused,
        kick_tokens=roots_status.bucket.left,
        hot_set_lag=hot_set_lag,
    )


def fetch_account_balance(endpoints: EndpointPool, address: Address) -> AccountBalance:
    try:
        balance = fetch_balance(endpoints.create_view(_TIMEOUT_SECONDS), address)
    except TransientError as error:
        return AccountBalance(address=address, balance_wei=None, unknown=str(error))
    return AccountBalance(address=address, balance_wei=balance)
