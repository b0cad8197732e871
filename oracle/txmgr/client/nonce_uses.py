"""Which transaction used a nonce: found in the blocks of endpoints, proven by its signature.

A count says that a nonce is used, and not by whom. Who says that it was somebody else's has that
transaction in hand: its hash is computed from what it says, and the account has signed it.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec
import rlp

from oracle.chain.proofs.keccak import keccak
from oracle.chain.proofs.transactions_root import SignedTransaction
from oracle.domain.blocks import BlockRef
from oracle.domain.ids import Address, Hash
from oracle.errors import TransientError
from oracle.rpc.fanout import EndpointCaller, PoolView, number_of, understood
from oracle.rpc.rpc_errors import CallRefusedError
from oracle.signing.signature_checks import EcdsaSignature
from oracle.txmgr.client.receipts import witnesses_of_count

# Whole blocks are large: so many in one batch, and so many in all under the oldest state.
_BLOCKS_AT_ONCE, _MOST_BLOCKS = 20, 1_000
# The v of a legacy signature: without a chain, and the first one with a chain (EIP-155).
_PLAIN_V, _V_OF_CHAIN = 27, 35


class Wanted(NamedTuple):
    """The nonce whose transaction is looked for."""

    chain_id: int
    sender: Address
    nonce: int


class Use(NamedTuple):
    """The transaction that used a nonce; `hash` is that of its content, which the account signed.

    `to` None: it deployed a contract.
    """

    hash: Hash
    to: Address | None
    block_number: int
    block_hash: Hash


class Evidence(NamedTuple):
    """What the endpoints show of a used nonce; `use` None: no transaction.

    `is_agreed`: all that have the final block and answer show this very transaction in the same
    block, and these are enough. `endpoints`: who has the final block, by place.
    """

    use: Use | None
    is_agreed: bool
    endpoints: frozenset[str] = frozenset()


def use_of(lines: PoolView, wanted: Wanted, final: BlockRef) -> Evidence:
    """Look for the transaction that used a nonce by the end of a block.

    Asked are those that have this block by its hash: one that lags, or is silent, says nothing.
    Where one of them counts less there is nothing to look for. Never raises.
    """
    counts = witnesses_of_count(lines, wanted.sender, final)
    places = frozenset(counts)
    if not counts or any(count <= wanted.nonce for count in counts.values()):
        return Evidence(None, is_agreed=False, endpoints=places)
    asked = [lines.all[int(place)] for place in counts]
    use = _first(asked, wanted, final.number)
    if use is None:
        return Evidence(None, is_agreed=False, endpoints=places)
    told = [_told_again(line, wanted, use.block_number) for line in asked]
    answers = [uses[0] for uses in told if uses]
    is_agreed = len(answers) >= lines.quorum and all(one == use for one in answers)
    return Evidence(use, is_agreed, places)


def _first(asked: Sequence[EndpointCaller], wanted: Wanted, final: int) -> Use | None:
    for line in asked:
        try:
            use = _search(line, wanted, final)
        except TransientError:
            continue
        if use is not None:
            return use
    return None


def _told_again(line: EndpointCaller, wanted: Wanted, number: int) -> list[Use | None]:
    """Return what an endpoint's own block has of the nonce; empty: it does not answer."""
    try:
        return [_use_in(line, wanted, [number])]
    except TransientError:
        return []


def _search(line: EndpointCaller, wanted: Wanted, final: int) -> Use | None:
    """Look into the block where the count rose, and below it where the state ends before that.

    Raises:
        TransientError: it does not answer.
    """
    number, is_sure = _rise(line, wanted, final)
    lowest = number if is_sure else max(0, number - _MOST_BLOCKS)
    for top in range(number, lowest - 1, -_BLOCKS_AT_ONCE):
        numbers = range(top, max(lowest - 1, top - _BLOCKS_AT_ONCE), -1)
        use = _use_in(line, wanted, numbers)
        if use is not None:
            return use
    return None


def _rise(line: EndpointCaller, wanted: Wanted, final: int) -> tuple[int, bool]:
    """Return the lowest block that is known to count the nonce as used.

    And whether the block below it is known not to: an endpoint has no old state for ever. First
    steps of 1, 2, 4 … blocks back, then by halves.
    """
    used, low, step, before = final, final, 1, None
    while low > 0:
        low = max(0, final - step)
        before = _counts_it(line, wanted, low)
        if not before:
            break
        used, step = low, 2 * step
    while used - low > 1:
        middle = (used + low) // 2
        counted = _counts_it(line, wanted, middle)
        if counted:
            used = middle
        else:
            low, before = middle, counted
    return used, used == 0 or before is False


def _counts_it(line: EndpointCaller, wanted: Wanted, number: int) -> bool | None:
    """Tell whether the nonce is used by the end of a block; None: that state is gone."""
    try:
        told = line.ask("eth_getTransactionCount", wanted.sender, hex(number))
        return number_of(told) > wanted.nonce
    except CallRefusedError as error:
        if error.is_rate_limited:
            raise
        return None
    except (TypeError, ValueError):
        return None


def _use_in(line: EndpointCaller, wanted: Wanted, numbers: Sequence[int]) -> Use | None:
    """Return the transaction of the account with this nonce that one of these blocks shows."""
    blocks = line.ask_all([("eth_getBlockByNumber", (hex(one), True)) for one in numbers])
    with understood("whole blocks"):
        for block in blocks:
            for one in [] if block is None else block["transactions"]:
                theirs = (one["from"].lower(), number_of(one["nonce"]))
                if theirs == (wanted.sender, wanted.nonce):
                    return _proven(one, wanted, block)
    return None


def _proven(told: Any, wanted: Wanted, block: Any) -> Use | None:  # noqa: ANN401  JSON
    """Return it where it is what the account signed; None: the endpoint shows no such thing.

    Raises:
        TypeError, ValueError: it is no transaction.
    """
    try:
        leaf = msgspec.convert(told, SignedTransaction).leaf()
    except msgspec.ValidationError:
        return None
    chain_id, nonce, signer = _signed(leaf)
    if (nonce, signer) != (wanted.nonce, wanted.sender) or chain_id not in {None, wanted.chain_id}:
        return None
    to = told["to"]
    return Use(
        Hash("0x" + keccak(leaf).hex()),
        Address(to.lower()) if to else None,
        number_of(block["number"]),
        Hash(block["hash"]),
    )


def _signed(leaf: bytes) -> tuple[int | None, int, Address | None]:
    """Return chain, nonce and signer of a transaction; the chain is None where it names none."""
    is_legacy = leaf[0] >= 0xC0  # noqa: PLR2004  an RLP list; other types have their number there
    parts: list[Any] = rlp.decode(leaf if is_legacy else leaf[1:])
    v, r, s = (int.from_bytes(part, "big") for part in parts[-3:])
    content = parts[:-3]
    if not is_legacy:
        digest = keccak(leaf[:1] + rlp.encode(content))
        chain_id, nonce = (int.from_bytes(part, "big") for part in content[:2])
        return chain_id, nonce, EcdsaSignature(r, s, v).account(digest)
    named = v >= _V_OF_CHAIN
    chain = (v - _V_OF_CHAIN) // 2 if named else None
    parity = (v - _V_OF_CHAIN) % 2 if named else v - _PLAIN_V
    ends = [] if chain is None else [chain, 0, 0]
    digest = keccak(rlp.encode([*content, *ends]))
    return chain, int.from_bytes(content[0], "big"), EcdsaSignature(r, s, parity).account(digest)
