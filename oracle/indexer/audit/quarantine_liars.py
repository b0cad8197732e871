"""Quarantines endpoints that were proven wrong, in this process and in later ones.

The proof consists of the receipts root, the transactions root and the header hash of a final
block: an endpoint that served other logs or calls for the block was wrong. Data that is only late
proves nothing.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from oracle.chain.fetch.fetcher import BlockWindow
from oracle.chain.protocols import ChainReader
from oracle.chain.verification.proven_lies import count_log_contents
from oracle.chain.watched_calls import is_watched_call
from oracle.domain.ids import Address
from oracle.domain.logs import Call, Log
from oracle.indexer.folder import EventFolder
from oracle.indexer.rebuild import RebuildOptions
from oracle.rpc.endpoints.providers import WitnessQuorum
from oracle.store.database import Store, UnitOfWork

SelectorsByContract = Mapping[Address, frozenset[str]]


def is_served_data_wrong(
    window: BlockWindow, logs: Iterable[Log], calls: Iterable[Call], selectors: SelectorsByContract
) -> bool:
    """Return whether logs and calls of a proven block contradict its proof.

    The proof does not cover the positions of logs, or calls that were read without the whole
    block.
    """
    has_other_logs = count_log_contents(logs) != count_log_contents(window.logs)
    return has_other_logs or _count_call_contents(calls, selectors) != _count_call_contents(
        window.calls, selectors
    )


def is_stored_data_wrong(
    uow: UnitOfWork, folder: EventFolder, block_number: int, window: BlockWindow
) -> bool:
    """Return whether the stored rows of a block contradict its proof in this window."""
    logs = uow.logs.iterate_between(block_number, block_number)
    calls = uow.calls.iterate_between(block_number, block_number)
    proven_window = BlockWindow(
        window.range,
        window.first_parent,
        window.last,
        [],
        [log for log in window.logs if log.block == block_number],
        [call for call in window.calls if call.block == block_number],
    )
    return is_served_data_wrong(proven_window, logs, calls, folder.reader.selectors)


def describe_wrong_blocks(blocks: Sequence[int]) -> str:
    """Return what an endpoint was proven wrong about, or "" for no blocks."""
    if not blocks:
        return ""
    suffix = f" and of {len(blocks) - 1} more" if len(blocks) > 1 else ""
    return f"had other logs or calls than the receipts of block {min(blocks)}{suffix}"


def count_usable_witnesses(chain: ChainReader) -> int:
    """Return the number of witnesses that were not proven wrong."""
    providers = chain.get_providers()
    return WitnessQuorum(providers).count_witnesses(
        providers.keys() - chain.get_proven_wrong().keys()
    )


def record_proven_wrong(
    chain: ChainReader, store: Store, rebuild_options: RebuildOptions
) -> list[str]:
    """Store the endpoints proven wrong while reading blocks; return the new ones."""
    reason_by_endpoint = chain.get_proven_wrong()
    if not reason_by_endpoint:
        return []
    with store.read_transaction() as uow:
        new_endpoints = (
            reason_by_endpoint.keys() - uow.facts.quarantine.get_reason_by_endpoint().keys()
        )
    if new_endpoints:
        with rebuild_options.transaction(store) as uow:
            for endpoint in sorted(new_endpoints):
                uow.facts.quarantine.add(endpoint, reason_by_endpoint[endpoint])
    return sorted(new_endpoints)


def _count_call_contents(
    calls: Iterable[Call], selectors: SelectorsByContract
) -> Counter[tuple[object, ...]]:
    return Counter(
        (call.tx, call.to, call.value, call.input, call.succeeded)
        for call in calls
        if is_watched_call(call.to, call.input, selectors)
    )
