"""Searches blocks for the transaction that used a nonce, and verifies its signature.

A transaction count shows that a nonce is used, but not by which transaction. An endpoint must
return the complete transaction, so that its signer can be recovered and its hash computed.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from oracle.chain.proofs.keccak import keccak
from oracle.chain.proofs.rlp import encode_rlp
from oracle.chain.proofs.transactions_root import SignedTransaction
from oracle.domain.blocks import BlockRef
from oracle.domain.ids import Address, Hash
from oracle.errors import TransientError
from oracle.rpc.fanout import EndpointCaller, PoolView, expect_response_format, parse_quantity
from oracle.rpc.rpc_errors import CallRefusedError
from oracle.signing.signature_checks import EcdsaSignature
from oracle.txmgr.client.receipts import fetch_transaction_counts_at_block

# Number of full blocks per batch request, and number of blocks to read below an endpoint's oldest
# state if the endpoint lacks older state.
_BLOCKS_PER_BATCH, _MAX_BLOCKS = 20, 1_000
# Lowest v of a legacy signature, without and with a chain id (EIP-155).
_LEGACY_V, _EIP155_V = 27, 35


class NonceQuery(NamedTuple):
    """The nonce whose transaction is to be found."""

    chain_id: int
    sender: Address
    nonce: int


class NonceUse(NamedTuple):
    """The transaction that used a nonce.

    `hash` is computed from the content that the account signed. `to` is None if the transaction
    deployed a contract.
    """

    hash: Hash
    to: Address | None
    block_number: int
    block_hash: Hash


class NonceUseEvidence(NamedTuple):
    """The evidence from the endpoints about the use of a nonce.

    `use` is None if no endpoint returns a transaction with this nonce. `endpoints` are the names
    of the endpoints that have the final block. `is_agreed` is whether all of these endpoints that
    answer return this very transaction in the same block, and whether they are enough witnesses.
    """

    use: NonceUse | None
    is_agreed: bool
    endpoints: frozenset[str] = frozenset()


def find_nonce_use(
    pool_view: PoolView, query: NonceQuery, final_block: BlockRef
) -> NonceUseEvidence:
    """Search for the transaction that used a nonce up to a final block.

    No error is raised. Only endpoints that have this block (by its hash) are queried, because
    others may lag. If one of them counts too few transactions, it is not proven that the nonce is
    used.
    """
    count_by_endpoint = fetch_transaction_counts_at_block(pool_view, query.sender, final_block)
    endpoint_names = frozenset(count_by_endpoint)
    if not count_by_endpoint or any(count <= query.nonce for count in count_by_endpoint.values()):
        return NonceUseEvidence(None, is_agreed=False, endpoints=endpoint_names)
    endpoints = [endpoint for endpoint in pool_view.callers if endpoint.name in endpoint_names]
    nonce_use = _find_first_use(endpoints, query, final_block.number)
    if nonce_use is None:
        return NonceUseEvidence(None, is_agreed=False, endpoints=endpoint_names)
    use_by_endpoint = _fetch_uses_by_endpoint(endpoints, query, nonce_use.block_number)
    is_unanimous = all(endpoint_use == nonce_use for endpoint_use in use_by_endpoint.values())
    return NonceUseEvidence(
        nonce_use, is_unanimous and pool_view.quorum.is_reached_by(use_by_endpoint), endpoint_names
    )


def _find_first_use(
    endpoints: Sequence[EndpointCaller], query: NonceQuery, final_number: int
) -> NonceUse | None:
    for endpoint in endpoints:
        try:
            nonce_use = _find_use(endpoint, query, final_number)
        except TransientError:
            continue
        if nonce_use is not None:
            return nonce_use
    return None


def _fetch_uses_by_endpoint(
    endpoints: Sequence[EndpointCaller], query: NonceQuery, block_number: int
) -> dict[str, NonceUse | None]:
    """Fetch the transaction in a block that used the nonce (or None), by endpoint."""
    use_by_endpoint: dict[str, NonceUse | None] = {}
    for endpoint in endpoints:
        try:
            use_by_endpoint[endpoint.name] = _fetch_use(endpoint, query, [block_number])
        except TransientError:
            continue
    return use_by_endpoint


def _find_use(endpoint: EndpointCaller, query: NonceQuery, final_number: int) -> NonceUse | None:
    """Find the transaction in the block in which the account's transaction count rose.

    If the endpoint lacks the older state that shows this block, the blocks below are read as well.

    Raises:
        TransientError: the endpoint does not answer.
    """
    number, is_certain = _find_first_block_with_use(endpoint, query, final_number)
    lowest_searched = number if is_certain else max(0, number - _MAX_BLOCKS)
    for top in range(number, lowest_searched - 1, -_BLOCKS_PER_BATCH):
        block_numbers = range(top, max(lowest_searched - 1, top - _BLOCKS_PER_BATCH), -1)
        nonce_use = _fetch_use(endpoint, query, block_numbers)
        if nonce_use is not None:
            return nonce_use
    return None


def _find_first_block_with_use(
    endpoint: EndpointCaller, query: NonceQuery, final_number: int
) -> tuple[int, bool]:
    """Find the first block at whose end the nonce is proven to be used.

    The second value is whether the nonce is proven to be unused one block earlier; it is False if
    the endpoint lacks the old state. The search goes back by 1, 2, 4 … blocks, and then bisects.
    """
    used_block, unused_block, step, is_used_before = final_number, final_number, 1, None
    while unused_block > 0:
        unused_block = max(0, final_number - step)
        is_used_before = _check_nonce_used(endpoint, query, unused_block)
        if not is_used_before:
            break
        used_block = unused_block
        step = 2 * step
    while used_block - unused_block > 1:
        middle_block = (used_block + unused_block) // 2
        is_used = _check_nonce_used(endpoint, query, middle_block)
        if is_used:
            used_block = middle_block
        else:
            unused_block, is_used_before = middle_block, is_used
    return used_block, used_block == 0 or is_used_before is False


def _check_nonce_used(
    endpoint: EndpointCaller, query: NonceQuery, block_number: int
) -> bool | None:
    """Return whether the nonce is used at the end of a block.

    The result is None if the endpoint lacks the state of this block.
    """
    try:
        nonce_hex = endpoint.request("eth_getTransactionCount", query.sender, hex(block_number))
        return parse_quantity(nonce_hex) > query.nonce
    except CallRefusedError as error:
        if error.is_rate_limited:
            raise
        return None
    except (TypeError, ValueError):
        return None


def _fetch_use(
    endpoint: EndpointCaller, query: NonceQuery, numbers: Sequence[int]
) -> NonceUse | None:
    """Fetch the transaction with this sender and nonce from these blocks, if there is one."""
    blocks = endpoint.request_all(
        [("eth_getBlockByNumber", (hex(number), True)) for number in numbers]
    )
    with expect_response_format("whole blocks"):
        for block in blocks:
            for tx in [] if block is None else block["transactions"]:
                sender = tx["from"].lower()
                nonce = parse_quantity(tx["nonce"])
                if (sender, nonce) == (query.sender, query.nonce):
                    return _build_verified_use(tx, query, block)
    return None


def _build_verified_use(tx: Any, query: NonceQuery, block: Any) -> NonceUse | None:  # noqa: ANN401  JSON
    """Return the use of a nonce if the account has signed this transaction, else None.

    Raises:
        TypeError, ValueError: `tx` is not a transaction.
    """
    try:
        leaf = msgspec.convert(tx, SignedTransaction).encode_leaf()
    except msgspec.ValidationError:
        return None
    chain_id, nonce, signer = _decode_and_recover_signer(leaf)
    if (nonce, signer) != (query.nonce, query.sender) or chain_id not in {None, query.chain_id}:
        return None
    to = tx["to"]
    return NonceUse(
        Hash("0x" + keccak(leaf).hex()),
        Address(to.lower()) if to else None,
        parse_quantity(block["number"]),
        Hash(block["hash"]),
    )


def _decode_and_recover_signer(leaf: bytes) -> tuple[int | None, int, Address | None]:
    """Decode the chain id and nonce of a transaction, and recover its signer.

    Chain id and signer may be None.
    """
    import rlp  # noqa: PLC0415  only a nonce of another program is decoded

    is_legacy = leaf[0] >= 0xC0  # noqa: PLR2004  an RLP list; other types have their number there
    fields: list[Any] = rlp.decode(leaf if is_legacy else leaf[1:])
    v, r, s = (int.from_bytes(part, "big") for part in fields[-3:])
    signed_fields = fields[:-3]
    if not is_legacy:
        digest = keccak(leaf[:1] + encode_rlp(signed_fields))
        chain_id, nonce = (int.from_bytes(part, "big") for part in signed_fields[:2])
        return chain_id, nonce, EcdsaSignature(r, s, v).recover_address(digest)
    has_chain_id = v >= _EIP155_V
    chain = (v - _EIP155_V) // 2 if has_chain_id else None
    parity = (v - _EIP155_V) % 2 if has_chain_id else v - _LEGACY_V
    chain_id_fields = [] if chain is None else [chain, 0, 0]
    digest = keccak(encode_rlp([*signed_fields, *chain_id_fields]))
    return (
        chain,
        int.from_bytes(signed_fields[0], "big"),
        EcdsaSignature(r, s, parity).recover_address(digest),
    )
