"""Reads several views of a contract at one block, and detects Arbitrum's ArbSys.

On an Arbitrum chain, `block.number` is the block number of the parent chain. The oracle must
therefore be deployed with `arbitrum` set, because otherwise it would accept no report.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from oracle.bindings.codec import decode_result, encode_call
from oracle.chain.proofs.keccak import keccak
from oracle.domain.blocks import BlockRef
from oracle.domain.ids import Address, Hash
from oracle.errors import TransientError
from oracle.rpc.fanout import EndpointCaller, PoolView, expect_response_format
from oracle.rpc.rpc_errors import RevertError
from oracle.txmgr.client.receipts import fetch_newest_block

T = TypeVar("T")
ARB_SYS = Address("0x0000000000000000000000000000000000000064")
_BLOCK_NUMBER_CALL = "0x" + keccak(b"arbBlockNumber()")[:4].hex()
# The number of characters of `0x` and a 32-byte word in hex.
_WORD_LENGTH = 66


class ViewCall(NamedTuple):
    """A view function of a contract, with the arguments for the call."""

    function: str
    arguments: tuple[object, ...] = ()


@dataclass(frozen=True, slots=True)
class DeployedContract:
    """A deployed contract, with its artifact in abi/, its address and the address's setting."""

    artifact: str
    address: Address
    setting: str

    @property
    def name(self) -> str:
        return self.artifact.rpartition("/")[2]

    @property
    def wrong_contract_message(self) -> str:
        return f"{self.address}: does not look like a {self.name} contract; check {self.setting}"


def call_views(
    pool_view: PoolView,
    contract: DeployedContract,
    block: BlockRef,
    calls: Sequence[ViewCall],
) -> list[tuple[Any, ...]]:
    """Call views at a block on one endpoint, and return their results in order.

    Raises:
        TransientError: no endpoint returns the contract's state. The failure is temporary, because
            the address was checked when the daemon started.
    """
    requests = [
        (
            "eth_call",
            (
                {
                    "to": contract.address,
                    "data": encode_call(contract.artifact, call.function, *call.arguments),
                },
                hex(block.number),
            ),
        )
        for call in calls
    ]

    def read_views(endpoint: EndpointCaller) -> list[tuple[Any, ...]]:
        try:
            results = endpoint.request_all(requests)
        except RevertError:
            raise TransientError(contract.wrong_contract_message) from None
        if any(result is None or result == "0x" for result in results):
            raise TransientError(
                f"{endpoint.name}: there is no {contract.name} contract at {contract.address}; "
                f"the endpoint has lost its chain data, or {contract.setting} is wrong"
            )
        with expect_response_format(f"a {contract.name} at {contract.address}"):
            return [
                decode_result(contract.artifact, call.function, result)
                for call, result in zip(calls, results, strict=True)
            ]

    # A null or empty result means that the endpoint has lost the chain or lags behind, so another
    # endpoint may have the contract.
    return pool_view.read_from_first(read_views)


def read_at_newest_block(pool_view: PoolView, read: Callable[[PoolView, BlockRef], T]) -> T:
    """Call `read` at the newest block, on the first endpoint that has the block's state.

    An endpoint may announce a newest block whose state neither it nor any other endpoint has.

    Raises:
        TransientError: no endpoint returns the state of its newest block.
    """
    failures: list[TransientError] = []
    for view in pool_view.build_single_endpoint_views():
        try:
            return read(view, fetch_newest_block(view))
        except TransientError as error:
            failures.append(error)
    raise failures[0]


def fetch_contract_code(pool_view: PoolView, contract: DeployedContract, block: BlockRef) -> str:
    """Fetch the `0x` code of a contract at a block.

    Raises:
        TransientError: no endpoint returns the code.
    """
    code = pool_view.request("eth_getCode", contract.address, hex(block.number))
    if not isinstance(code, str):
        raise TransientError(contract.wrong_contract_message)
    return code


def decode_hash_result(result: tuple[Any, ...]) -> Hash:
    """Decode the only result of a view, a bytes32, as `0x` hex."""
    return Hash("0x" + bytes(result[0]).hex())


def is_arbitrum_chain(pool_view: PoolView) -> bool:
    """Return whether the chain has Arbitrum's system contract ArbSys.

    Raises:
        TransientError: no endpoint responds.
    """
    call = {"to": ARB_SYS, "data": _BLOCK_NUMBER_CALL}
    try:
        block_number = pool_view.request("eth_call", call, "latest")
    except RevertError:
        # On this chain, another precompile or contract has the address.
        return False
    return isinstance(block_number, str) and len(block_number) == _WORD_LENGTH
