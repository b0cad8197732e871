"""Probes what an endpoint is and supports: at the start, every hour, and on command.

See docs/explanation/endpoints.md#probe.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from oracle.domain.blocks import BlockRef
from oracle.rpc.client import JsonRpcClient
from oracle.rpc.endpoints.capabilities import TAGS, Capabilities
from oracle.rpc.endpoints.checkpoints import Checkpoint, fault_in
from oracle.rpc.headers import header
from oracle.rpc.responses import Quantity, number
from oracle.rpc.rpc_errors import ErrorKind, RpcError
from oracle.rpc.wire import BATCH

T = TypeVar("T")

_BATCHES = (BATCH, 50, 20)
# The hash of no block: an endpoint that serves logs by hash must not return an empty list for it.
_INVENTED = "0x" + "1234abcd" * 8
# Kinds that show nothing about the requested feature.
NO_ANSWER = {
    ErrorKind.UNREACHABLE,
    ErrorKind.SLOW,
    ErrorKind.THROTTLED,
    ErrorKind.REFUSED,
    ErrorKind.BACKOFF,
}


@dataclass(frozen=True, slots=True)
class ProbeRequirements:
    """Requirements for an endpoint: the configured chain, and logs from `first_block` on."""

    chain_id: int
    checkpoints: Sequence[Checkpoint]
    logs: dict[str, Any]
    first: int


def probe(
    client: JsonRpcClient, wanted: ProbeRequirements, known: Capabilities | None = None
) -> Capabilities:
    """Probe an endpoint's identity and capabilities, with about twenty requests.

    `previous` are capabilities of an earlier probe: the batch size and the oldest logs, which are
    costly to find, are taken from there.

    Raises:
        RpcError: the endpoint does not respond at all.
    """
    chain_id = number(client.name, client.call("eth_chainId", [], Quantity))
    if chain_id != wanted.chain_id:
        words = f"is on chain {chain_id}, [chain] id says {wanted.chain_id}"
        return Capabilities(chain_id=chain_id, fault=words)
    checkpoint, fault = _at_checkpoint(client, wanted.checkpoints)
    head = header(client, "latest")
    if head is None:
        raise RpcError(client.name, ErrorKind.NOT_THERE, "no latest block")
    has_receipts = _is_list(client, "eth_getBlockReceipts", [head.hash])
    return Capabilities(
        chain_id=chain_id,
        client=_told(lambda: client.call("web3_clientVersion", [], str)),
        head=head,
        tags=tuple(tag for tag in TAGS if _told(lambda tag=tag: header(client, tag))),  # type: ignore[misc]  # mypy cannot infer it
        has_logs_by_hash=_supports_logs_by_hash(client, wanted, head),
        has_block_receipts=has_receipts,
        batch=_batch(client) if known is None else client.batch_limit,
        oldest_logs=_oldest(client, wanted, head) if known is None else known.oldest_logs,
        checkpoint=checkpoint,
        fault=fault,
    )


def _at_checkpoint(
    client: JsonRpcClient, checkpoints: Sequence[Checkpoint]
) -> tuple[bool | None, str | None]:
    """Return whether it shows the checkpoints (None: none reached), and why it is unusable."""
    blocks = [(header(client, checkpoint.number), checkpoint) for checkpoint in checkpoints]
    fault = next(
        (fault for block, checkpoint in blocks if (fault := fault_in(block, checkpoint))), None
    )
    if fault is not None:
        return False, fault
    return (True if any(block is not None for block, _ in blocks) else None), None


def _supports_logs_by_hash(
    client: JsonRpcClient, wanted: ProbeRequirements, head: BlockRef
) -> bool:
    """Return whether the endpoint serves logs by block hash, and rejects unknown hashes.

    An endpoint that returns no logs for a nonexistent block could hide those of real ones.
    """
    asked = [{**wanted.logs, "blockHash": block_hash} for block_hash in (head.hash, _INVENTED)]
    if not _is_list(client, "eth_getLogs", [asked[0]]):
        return False
    return not _is_list(client, "eth_getLogs", [asked[1]])


def _is_list(client: JsonRpcClient, method: str, params: Sequence[object]) -> bool:
    return _told(lambda: client.call(method, params, list[object])) is not None


def _batch(client: JsonRpcClient) -> int:
    """Return the largest batch that it accepts, of a few sizes and the halves of the last one."""
    for size in _BATCHES:
        client.learn_batch(size)
        _told(lambda size=size: client.batch("eth_chainId", [[]] * size, Quantity))  # type: ignore[misc]  # mypy cannot infer it
        if client.batch_limit == size:
            break
    return client.batch_limit


def _oldest(client: JsonRpcClient, wanted: ProbeRequirements, head: BlockRef) -> int | None:
    """Return the oldest block, from `first_block` on, whose logs it has; None if it has none.

    One request if it has all required logs, else a binary search over the chain.
    """
    if wanted.first > head.number or _has_logs(client, wanted, wanted.first):
        return wanted.first
    missing, there = wanted.first, head.number
    if not _has_logs(client, wanted, there):
        return None
    while there - missing > 1:
        middle = (missing + there) // 2
        if _has_logs(client, wanted, middle):
            there = middle
        else:
            missing = middle
    return there


def _has_logs(client: JsonRpcClient, wanted: ProbeRequirements, block: int) -> bool:
    asked = {**wanted.logs, "fromBlock": hex(block), "toBlock": hex(block)}
    return header(client, block) is not None and _is_list(client, "eth_getLogs", [asked])


def _told(ask: Callable[[], T]) -> T | None:
    """Return the result, or None if the endpoint refuses the request."""
    try:
        return ask()
    except RpcError as error:
        if error.kind in NO_ANSWER:
            raise
        return None
