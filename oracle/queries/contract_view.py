"""The state of the contract, the chain and an operator's account, for another process."""

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

# A daemon that lags by more blocks is not ready, and an endpoint that does is not used.
READY_WITHIN_BLOCKS = 10
# A status query waits only briefly.
_SECONDS = 3.0
# Decimal places of an amount of ether in text output.
_DIGITS = 6


@dataclass(frozen=True, slots=True)
class ContractState:
    """The contract at one block; times in unix seconds of the chain."""

    round: int
    pushed_at: int
    paused_until: int
    kicks_paused: bool


@dataclass(frozen=True, slots=True)
class ChainView:
    """A reading of the chain; `unknown_reason` states why a part of it is not known.

    `head`: the newest block; `contract` is None if there is no contract, or if it is not known.
    """

    head: BlockRef | None
    contract: ContractState | None = None
    unknown: str | None = None

    @property
    def paused_until(self) -> int | None:
        """Return until when the contract accepts no report, or None if no pause is known."""
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
    """The known state of the contract; times in unix seconds of the chain."""

    round: int | None
    pushed_at: int | None = Field(description="null: no round was accepted, or it is unknown.")
    paused_until: int | None = Field(description="null: it takes reports, as far as known.")
    kicks_paused: bool | None
    unknown: str | None = Field(description="Why something of it is not known.")


class AccountBalance(ApiModel):
    """An account of the operator and its balance in wei."""

    address: AddressText | None
    balance_wei: Integer | None
    unknown: str | None = Field(default=None, description="Why one of them is not known.")

    def text(self) -> str:
        """Return the address and its balance in ether, rounded down, as text."""
        if self.balance_wei is None:
            return f"{self.address or 'unknown'}, balance unknown: {self.unknown}"
        ether = decimal_text(self.balance_wei // 10**12 * 10**12)[: -(18 - _DIGITS)]
        return f"{self.address}, {ether} ether"


def ask_chain(
    endpoints: EndpointPool, contract: str | None, folded: int | None = None
) -> ChainView:
    """Read the chain's head and the contract from the endpoints that may be used.

    A silent endpoint is queried once and waited for three seconds. An endpoint that has not
    reached block `folded_block`, the last block of the index, is ignored because its answer is out
    of date. `contract`: the oracle's address, or None if there is no contract.
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
    """Read the balance of an account from an endpoint."""
    try:
        balance = balance_of(endpoints.view(_SECONDS), address)
    except TransientError as error:
        return AccountBalance(address=address, balance_wei=None, unknown=str(error))
    return AccountBalance(address=address, balance_wei=balance)
