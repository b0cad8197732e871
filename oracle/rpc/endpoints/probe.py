"""Probes an endpoint's identity and features: at startup, hourly, and on command.

An endpoint serves the configured chain if it returns the configured chain id, and blocks whose
hashes are known (docs/explanation/endpoints.md#whose-chain). See
docs/explanation/endpoints.md#probe.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeVar

from oracle.domain.blocks import BlockRef
from oracle.domain.ids import Hash
from oracle.rpc.client import MAX_BATCH_SIZE, JsonRpcClient
from oracle.rpc.headers import get_header, get_headers
from oracle.rpc.responses import Quantity, parse_quantity
from oracle.rpc.rpc_errors import ErrorKind, RpcError

T = TypeVar("T")

# Tags of blocks below the newest one.
TAGS = ("safe", "finalized")
HOUR = 3600.0
DAY = 24 * HOUR
# Name under which facts about the chain are stored. These facts do not depend on an endpoint.
CHAIN_FACTS_KEY = ""
_BATCH_SIZES = (MAX_BATCH_SIZE, 50, 20)
# No block has this hash. An endpoint that serves logs by hash must therefore return an error for
# it.
_NONEXISTENT_BLOCK_HASH = "0x" + "1234abcd" * 8
# After an error of these kinds, it remains unknown whether the endpoint supports the requested
# feature.
INCONCLUSIVE_KINDS = {
    ErrorKind.UNREACHABLE,
    ErrorKind.SLOW,
    ErrorKind.THROTTLED,
    ErrorKind.REFUSED,
    ErrorKind.BACKOFF,
}


class Checkpoint(NamedTuple):
    """A block that every endpoint must have with this hash.

    `source` is the hash's origin.
    """

    number: int
    hash: Hash
    source: str


def find_chain_mismatch(
    client: JsonRpcClient,
    chain_id: int,
    checkpoints: Sequence[Checkpoint],
    *,
    timeout_seconds: float | None,
) -> str | None:
    """Return why the endpoint is not on the configured chain, or None if it is.

    `timeout_seconds` is how long the first response may take; None uses the client's timeout. If
    the endpoint does not have the block of a checkpoint, for example because its head is lower,
    the checkpoint is ignored.

    Raises:
        RpcError: the endpoint does not respond.
    """
    chain_id_hex = client.call("eth_chainId", [], Quantity, timeout_seconds=timeout_seconds)
    actual_chain_id = parse_quantity(client.name, chain_id_hex)
    if actual_chain_id != chain_id:
        return f"is on chain {actual_chain_id}, but [chain] id is {chain_id}"
    if not checkpoints:
        return None
    blocks = get_headers(client, [checkpoint.number for checkpoint in checkpoints])
    mismatches = (
        find_checkpoint_mismatch(block, checkpoint)
        for block, checkpoint in zip(blocks, checkpoints, strict=True)
    )
    return next((mismatch for mismatch in mismatches if mismatch), None)


def find_checkpoint_mismatch(block: BlockRef | None, checkpoint: Checkpoint) -> str | None:
    """Return how a block differs from a checkpoint, or None if it does not.

    The result is also None for a missing block.
    """
    if block is None or block.hash == checkpoint.hash:
        return None
    return (
        f"shows block {checkpoint.number} as {block.hash}, but {checkpoint.source} has "
        f"{checkpoint.hash}"
    )


@dataclass(frozen=True, slots=True)
class Capabilities:
    """The result of probing one endpoint.

    An unsupported feature is None or False. `tags` are the supported block tags among `safe` and
    `finalized`. `max_batch_size` is the largest batch that the endpoint accepted.
    `oldest_log_block` is the oldest probed block whose logs it returned. `fault` is why the
    endpoint must not be used.
    """

    chain_id: int | None = None
    client: str | None = None
    head: BlockRef | None = None
    tags: tuple[str, ...] = ()
    has_logs_by_hash: bool = False
    has_block_receipts: bool = False
    max_batch_size: int = 1
    oldest_log_block: int | None = None
    # True if the endpoint's blocks match the checkpoints. It is None if there is no checkpoint, or
    # if all checkpoints are above the endpoint's head.
    shows_checkpoint: bool | None = None
    fault: str | None = None


class CapabilityStore(Protocol):
    """Stores facts about endpoints by key.

    The facts are in the table `endpoint_fact`.
    """

    def load_facts(self, endpoint: str) -> dict[str, str]:
        """Load the endpoint's stored facts that have not expired."""
        ...

    def save_fact(self, endpoint: str, key: str, value: str, seconds: float | None) -> None:
        """Store a fact, which expires after `seconds`.

        If `seconds` is None, the fact never expires.
        """
        ...


@dataclass(frozen=True, slots=True)
class ProbeRequirements:
    """The requirements for an endpoint: the configured chain, and logs from `first_block` on."""

    chain_id: int
    checkpoints: Sequence[Checkpoint]
    log_filter: dict[str, Any]
    first_block: int


def probe_endpoint(
    client: JsonRpcClient,
    requirements: ProbeRequirements,
    previous_capabilities: Capabilities | None = None,
) -> Capabilities:
    """Probe an endpoint's identity and capabilities, using about twenty requests.

    `previous_capabilities` is the result of an earlier probe. The batch size and the oldest block
    with logs are taken from this result, because they require many requests.

    Raises:
        RpcError: the endpoint does not respond at all.
    """
    chain_id = parse_quantity(client.name, client.call("eth_chainId", [], Quantity))
    if chain_id != requirements.chain_id:
        fault_text = f"is on chain {chain_id}, but [chain] id is {requirements.chain_id}"
        return Capabilities(chain_id=chain_id, fault=fault_text)
    checkpoint, fault = _compare_with_checkpoints(client, requirements.checkpoints)
    head_block = get_header(client, "latest")
    if head_block is None:
        raise RpcError(client.name, ErrorKind.NOT_THERE, "no latest block")
    has_receipts = _returns_list(client, "eth_getBlockReceipts", [head_block.hash])
    return Capabilities(
        chain_id=chain_id,
        client=_try_request(lambda: client.call("web3_clientVersion", [], str)),
        head=head_block,
        tags=tuple(tag for tag in TAGS if _try_request(lambda tag=tag: get_header(client, tag))),  # type: ignore[misc]  # mypy cannot infer it
        has_logs_by_hash=_supports_logs_by_hash(client, requirements, head_block),
        has_block_receipts=has_receipts,
        max_batch_size=_find_max_batch_size(client)
        if previous_capabilities is None
        else client.batch_limit,
        oldest_log_block=_find_oldest_log_block(client, requirements, head_block)
        if previous_capabilities is None
        else previous_capabilities.oldest_log_block,
        shows_checkpoint=checkpoint,
        fault=fault,
    )


def _compare_with_checkpoints(
    client: JsonRpcClient, checkpoints: Sequence[Checkpoint]
) -> tuple[bool | None, str | None]:
    """Return whether the endpoint has all checkpoints, and the fault if any.

    Whether it has them is None if this is unknown.
    """
    blocks = [(get_header(client, checkpoint.number), checkpoint) for checkpoint in checkpoints]
    checkpoint_fault = next(
        (
            checkpoint_fault
            for block, checkpoint in blocks
            if (checkpoint_fault := find_checkpoint_mismatch(block, checkpoint))
        ),
        None,
    )
    if checkpoint_fault is not None:
        return False, checkpoint_fault
    return (True if any(block is not None for block, _ in blocks) else None), None


def _supports_logs_by_hash(
    client: JsonRpcClient, requirements: ProbeRequirements, head: BlockRef
) -> bool:
    """Return whether the endpoint serves logs by block hash.

    The endpoint must also reject unknown hashes. An endpoint that returns an empty list for a
    nonexistent block cannot be trusted, because its empty list for a real block may be wrong as
    well.
    """
    filters = [
        {**requirements.log_filter, "blockHash": block_hash}
        for block_hash in (head.hash, _NONEXISTENT_BLOCK_HASH)
    ]
    if not _returns_list(client, "eth_getLogs", [filters[0]]):
        return False
    return not _returns_list(client, "eth_getLogs", [filters[1]])


def _returns_list(client: JsonRpcClient, method: str, params: Sequence[object]) -> bool:
    return _try_request(lambda: client.call(method, params, list[object])) is not None


def _find_max_batch_size(client: JsonRpcClient) -> int:
    """Find the largest of a few batch sizes that the endpoint accepts."""
    for size in _BATCH_SIZES:
        client.limit_batch_size(size)
        _try_request(lambda size=size: client.call_batch("eth_chainId", [[]] * size, Quantity))  # type: ignore[misc]  # mypy cannot infer it
        if client.batch_limit == size:
            break
    return client.batch_limit


def _find_oldest_log_block(
    client: JsonRpcClient, requirements: ProbeRequirements, head: BlockRef
) -> int | None:
    """Find the oldest block whose logs the endpoint has.

    The search starts at `first_block`. The result is None if there is no such block. If the
    endpoint lacks the logs of `first_block`, the oldest block is found by bisection.
    """
    if requirements.first_block > head.number or _has_logs(
        client, requirements, requirements.first_block
    ):
        return requirements.first_block
    missing_height, available_height = requirements.first_block, head.number
    if not _has_logs(client, requirements, available_height):
        return None
    while available_height - missing_height > 1:
        middle_height = (missing_height + available_height) // 2
        if _has_logs(client, requirements, middle_height):
            available_height = middle_height
        else:
            missing_height = middle_height
    return available_height


def _has_logs(client: JsonRpcClient, requirements: ProbeRequirements, block_number: int) -> bool:
    log_filter = {
        **requirements.log_filter,
        "fromBlock": hex(block_number),
        "toBlock": hex(block_number),
    }
    return get_header(client, block_number) is not None and _returns_list(
        client, "eth_getLogs", [log_filter]
    )


def _try_request(send: Callable[[], T]) -> T | None:
    """Send a request and return its result, or None if the endpoint refuses it."""
    try:
        return send()
    except RpcError as error:
        if error.kind in INCONCLUSIVE_KINDS:
            raise
        return None
