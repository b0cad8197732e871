"""Measures a network's deployment block, block rate and finality at an endpoint.

`init` proposes settings from the measurements. Only headers and contract code are requested.
"""

from collections.abc import Iterable
from typing import NamedTuple

from oracle.chain.heads import Finality
from oracle.domain.ids import Address
from oracle.errors import InputError
from oracle.rpc.client import JsonRpcClient
from oracle.rpc.endpoints.probe import INCONCLUSIVE_KINDS
from oracle.rpc.headers import get_header
from oracle.rpc.responses import Quantity, parse_quantity
from oracle.rpc.rpc_errors import ErrorKind, RpcError

# The block time is measured over this many blocks.
_MEASURED_BLOCKS = 100
# Without a finality tag, propose what exchanges usually wait on Ethereum, in blocks and seconds.
_FINALITY_DEPTH, _FINALITY_SECONDS = 64, 768
# With a finality tag, the depth rarely matters, because the `finalized` block is usually deeper
# than this.
_FINALITY_DEPTH_WITH_TAG = 12
_MIN_POLL_SECONDS, _MAX_POLL_SECONDS = 0.5, 6.0


class BlockRate(NamedTuple):
    """The newest block, and the recent mean block time in seconds (0.0 if unknown)."""

    chain_id: int
    head: int
    block_seconds: float

    @property
    def poll_seconds(self) -> float:
        """Return the poll interval: half the block time, within bounds."""
        return round(min(max(self.block_seconds / 2, _MIN_POLL_SECONDS), _MAX_POLL_SECONDS), 1)


def measure_block_rate(client: JsonRpcClient) -> BlockRate:
    """Measure the block rate at an endpoint.

    Raises:
        RpcError: the endpoint does not respond.
    """
    chain_id = parse_quantity(client.name, client.call("eth_chainId", [], Quantity))
    head = get_header(client, "latest")
    if head is None:
        raise RpcError(client.name, ErrorKind.NOT_THERE, "no latest block")
    older_header = get_header(client, max(0, head.number - _MEASURED_BLOCKS))
    if older_header is None or older_header.number == head.number:
        return BlockRate(chain_id, head.number, 0.0)
    block_seconds = (head.time - older_header.time) / (head.number - older_header.number)
    return BlockRate(chain_id, head.number, block_seconds)


def find_deployment_block(client: JsonRpcClient, address: Address, head_number: int) -> int | None:
    """Find the block where the contract's code first exists, by bisection.

    Return None if the endpoint does not have the state of such old blocks. The search takes about
    one request per halving of the chain. For a contract that was destroyed and created again,
    either block may be returned.

    Raises:
        InputError: there is no code at the address.
        RpcError: the endpoint does not respond.
    """
    if not _has_code(client, address, head_number):
        raise InputError(f"{address}: there is no contract at this address on this chain")
    low_block, high_block = -1, head_number
    while high_block - low_block > 1:
        middle_block = (low_block + high_block) // 2
        try:
            has_code = _has_code(client, address, middle_block)
        except RpcError as error:
            if error.kind in INCONCLUSIVE_KINDS:
                raise
            return None
        low_block, high_block = (
            (low_block, middle_block) if has_code else (middle_block, high_block)
        )
    return high_block


def propose_finality(block_seconds: float, tags: Iterable[str]) -> tuple[Finality, str]:
    """Propose a finality setting, with the reason (docs/explanation/ingest.md#finality)."""
    if "finalized" in tags:
        reason = "the chain has a finalized tag; this depth applies if the tag lags further behind"
        return Finality(_FINALITY_DEPTH_WITH_TAG), reason
    if block_seconds * _FINALITY_DEPTH < _FINALITY_SECONDS:
        reason = (
            "no endpoint serves a finalized tag and blocks are fast: both depth and seconds apply"
        )
        return Finality(_FINALITY_DEPTH, _FINALITY_SECONDS), reason
    return Finality(_FINALITY_DEPTH), "no endpoint serves a finalized tag: depth in blocks"


def _has_code(client: JsonRpcClient, address: Address, block_number: int) -> bool:
    code = client.call("eth_getCode", [address, hex(block_number)], str)
    if code is None:
        raise RpcError(client.name, ErrorKind.INVALID, f"{address}: null instead of its code")
    return code not in {"", "0x"}
