"""Measurements of a new network at an endpoint: deployment block, block rate, finality.

`init` proposes settings from them; only headers and contract code are requested.
"""

from collections.abc import Iterable
from typing import NamedTuple

from oracle.domain.ids import Address
from oracle.errors import InputError
from oracle.rpc.client import JsonRpcClient
from oracle.rpc.endpoints.probe import NO_ANSWER
from oracle.rpc.headers import header
from oracle.rpc.responses import Quantity, number
from oracle.rpc.rpc_errors import ErrorKind, RpcError

# Number of blocks over which the block time is measured.
_MEASURED_BLOCKS = 100
# Without a finality tag: common exchange confirmations on Ethereum, in blocks and seconds.
_DEPTH, _DEPTH_SECONDS = 64, 768
# With a finality tag: the `finalized` block is deeper, and it decides.
_DEPTH_BESIDE = 12
_LEAST_POLL, _MOST_POLL = 0.5, 6.0


class BlockRate(NamedTuple):
    """The newest block, and the recent mean block time in seconds; 0.0 with too few blocks."""

    chain_id: int
    head: int
    block_seconds: float

    @property
    def poll_seconds(self) -> float:
        """Return the poll interval: half the block time, within bounds."""
        return round(min(max(self.block_seconds / 2, _LEAST_POLL), _MOST_POLL), 1)


class FinalityProposal(NamedTuple):
    """The proposed `finality_depth` and `finality_seconds` of `[chain]`, with the reason."""

    depth: int
    seconds: int
    why: str


def block_rate(client: JsonRpcClient) -> BlockRate:
    """Measure the block rate at an endpoint. Raises RpcError: it does not respond."""
    chain_id = number(client.name, client.call("eth_chainId", [], Quantity))
    head = header(client, "latest")
    if head is None:
        raise RpcError(client.name, ErrorKind.NOT_THERE, "no latest block")
    older = header(client, max(0, head.number - _MEASURED_BLOCKS))
    if older is None or older.number == head.number:
        return BlockRate(chain_id, head.number, 0.0)
    seconds = (head.time - older.time) / (head.number - older.number)
    return BlockRate(chain_id, head.number, seconds)


def deployed_in(client: JsonRpcClient, address: Address, head: int) -> int | None:
    """Return the block in which the contract's code first exists, by bisection.

    Needs about one request per halving of the chain. Return None if the endpoint has no state that
    old. For a contract that was destroyed and recreated, either creation may be found.

    Raises:
        InputError: there is no code at the address now.
        RpcError: the endpoint does not respond.
    """
    if not _has_code(client, address, head):
        raise InputError(f"{address}: there is no contract at this address of this chain")
    missing, there = -1, head
    while there - missing > 1:
        middle = (missing + there) // 2
        try:
            has_code = _has_code(client, address, middle)
        except RpcError as error:
            if error.kind in NO_ANSWER:
                raise
            return None
        missing, there = (missing, middle) if has_code else (middle, there)
    return there


def proposed_finality(block_seconds: float, tags: Iterable[str]) -> FinalityProposal:
    """Propose finality settings; see docs/explanation/ingest.md#finality."""
    if "finalized" in tags:
        why = "the chain says itself what is final; this holds where it says less than so"
        return FinalityProposal(_DEPTH_BESIDE, 0, why)
    if block_seconds * _DEPTH < _DEPTH_SECONDS:
        why = "no endpoint says what is final, and blocks are quick: blocks and seconds both"
        return FinalityProposal(_DEPTH, _DEPTH_SECONDS, why)
    return FinalityProposal(_DEPTH, 0, "no endpoint says what is final: so many blocks")


def _has_code(client: JsonRpcClient, address: Address, block: int) -> bool:
    code = client.call("eth_getCode", [address, hex(block)], str)
    if code is None:
        raise RpcError(client.name, ErrorKind.INVALID, f"{address}: null instead of its code")
    return code not in {"", "0x"}
