"""How contract, chain and an account of ours stand: for who asks beside the daemon."""

from dataclasses import dataclass

from pydantic import Field

from oracle.bindings.qos_oracle import OracleContract
from oracle.domain.blocks import BlockRef
from oracle.domain.fixed_point import decimal_text
from oracle.domain.ids import Address
from oracle.errors import TransientError
from oracle.queries.answers import AddressText, ApiModel, Integer
from oracle.rpc.fanout import PoolView
from oracle.rpc.pool import EndpointPool
from oracle.txmgr.client.receipts import balance_of, newest_block

# Behind by more blocks than this, the daemon is not ready, and an endpoint is of no use to ask.
READY_WITHIN_BLOCKS = 10
# Who only looks does not wait for long.
_SECONDS = 3.0
# Digits of an ether that people read.
_DIGITS = 6


@dataclass(frozen=True, slots=True)
class ContractState:
    """The contract at one look; times in unix seconds of the chain."""

    round: int
    pushed_at: int
    paused_until: int
    kicks_paused: bool


@dataclass(frozen=True, slots=True)
class ChainView:
    """One look at the chain; `unknown` says why something of it is not known.

    `head`: the newest block; `contract` None: there is none, or it is not known.
    """

    head: BlockRef | None
    contract: ContractState | None = None
    unknown: str | None = None

    @property
    def paused_until(self) -> int | None:
        """Return until when the contract takes no report; None: it takes them, as far as known."""
        if self.contract is None or self.head is None:
            return None
        until = self.contract.paused_until
        return until if until > self.head.time else None

    def contract_view(self) -> "ContractView":
        """Return the answer about the contract."""
        contract = self.contract
        return ContractView(
            round=None if contract is None else contract.round,
            pushed_at=None if contract is None or not contract.round else contract.pushed_at,
            paused_until=self.paused_until,
            kicks_paused=None if contract is None else contract.kicks_paused,
            unknown=self.unknown,
        )


class ContractView(ApiModel):
    """What is known of the contract; times in unix seconds of the chain."""

    round: int | None
    pushed_at: int | None = Field(description="null: no round was accepted, or it is unknown.")
    paused_until: int | None = Field(description="null: it takes reports, as far as known.")
    kicks_paused: bool | None
    unknown: str | None = Field(description="Why something of it is not known.")


class AccountBalance(ApiModel):
    """An account of ours and its ether."""

    address: AddressText | None
    balance_wei: Integer | None
    unknown: str | None = Field(default=None, description="Why one of them is not known.")

    def text(self) -> str:
        """Return it for people, rounded down."""
        if self.balance_wei is None:
            return f"{self.address or 'unknown'}, balance unknown: {self.unknown}"
        ether = decimal_text(self.balance_wei // 10**12 * 10**12)[: -(18 - _DIGITS)]
        return f"{self.address}, {ether} ether"


def ask_chain(
    endpoints: EndpointPool, contract: str | None, folded: int | None = None
) -> ChainView:
    """Ask those that may be asked; one that is silent is waited for three seconds, and asked once.

    Who has not come as far as block `folded`, which we have, says nothing of today. `contract`:
    the oracle's address, None where there is none.
    """
    try:
        speaking = endpoints.view(_SECONDS).that_answer(endpoints.chain_id)
        speaking.check_chain(endpoints.chain_id)
        near = speaking if folded is None else speaking.that_reached(folded)
        view = _seen_by(near, contract)
    except TransientError as error:
        return ChainView(None, unknown=str(error))
    if view.head is not None and view.head.number < (folded or 0) - READY_WITHIN_BLOCKS:
        return ChainView(None, unknown=f"who answers is itself at block {view.head.number} only")
    return view


def _seen_by(lines: PoolView, address: str | None) -> ChainView:
    if address is None:
        return ChainView(newest_block(lines))
    contract_status = OracleContract(lines, Address(address)).contract_status()
    head = contract_status.head
    state = ContractState(head.round, head.pushed_at, head.paused_until, head.kicks_paused)
    return ChainView(contract_status.block, state)


def account_balance(endpoints: EndpointPool, address: Address) -> AccountBalance:
    """Ask an endpoint what an account has."""
    try:
        balance = balance_of(endpoints.view(_SECONDS), address)
    except TransientError as error:
        return AccountBalance(address=address, balance_wei=None, unknown=str(error))
    return AccountBalance(address=address, balance_wei=balance)
