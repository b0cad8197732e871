"""Quarantines endpoints that were proven wrong, in this process and in later ones.

The proof consists of the receipts root, the transactions root and the header hash of a final
block: an endpoint with other logs or calls for it was wrong. Late data proves nothing.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from oracle.chain.fetch.fetcher import BlockWindow
from oracle.chain.protocols import ChainReader
from oracle.chain.verification.proven_lies import content
from oracle.chain.watched_calls import is_watched
from oracle.domain.ids import Address
from oracle.domain.logs import Call, Log
from oracle.indexer.folder import Folder
from oracle.indexer.rebuild import RebuildOptions
from oracle.rpc.endpoints.providers import WitnessQuorum
from oracle.store.database import Store, UnitOfWork

Selectors = Mapping[Address, frozenset[str]]


def is_served_data_wrong(
    window: BlockWindow, logs: Iterable[Log], calls: Iterable[Call], by: Selectors
) -> bool:
    """Return whether logs and calls of a proven block contradict its proof.

    The position of a log is not part of the proof, nor are calls that were read without their
    whole block.
    """
    is_other = content(logs) != content(window.logs)
    return is_other or _content_of(calls, by) != _content_of(window.calls, by)


def is_stored_data_wrong(
    uow: UnitOfWork, folder: Folder, number: int, window: BlockWindow
) -> bool:
    """Return whether the stored rows of a block contradict its proof in this window."""
    logs = uow.logs.between(number, number)
    calls = uow.calls.between(number, number)
    there = BlockWindow(
        window.range,
        window.first_parent,
        window.last,
        [],
        [log for log in window.logs if log.block == number],
        [call for call in window.calls if call.block == number],
    )
    return is_served_data_wrong(there, logs, calls, folder.reader.selectors)


def lie_of(blocks: Sequence[int]) -> str:
    """Return what an endpoint was proven wrong about, or "" for no blocks."""
    if not blocks:
        return ""
    more = f" and of {len(blocks) - 1} more" if len(blocks) > 1 else ""
    return f"had other logs or calls than the receipts of block {min(blocks)}{more}"


def count_usable_witnesses(chain: ChainReader) -> int:
    """Return the number of witnesses that were not proven wrong."""
    providers = chain.providers()
    return WitnessQuorum(providers).count(providers.keys() - chain.proven_wrong().keys())


def note_proven_wrong(chain: ChainReader, store: Store, manner: RebuildOptions) -> list[str]:
    """Store the endpoints proven wrong while reading blocks; return the new ones."""
    convicted = chain.proven_wrong()
    if not convicted:
        return []
    with store.reading() as uow:
        fresh = convicted.keys() - uow.facts.quarantine.reasons().keys()
    if fresh:
        with manner.transaction(store) as uow:
            for endpoint in sorted(fresh):
                uow.facts.quarantine.add(endpoint, convicted[endpoint])
    return sorted(fresh)


def _content_of(calls: Iterable[Call], by: Selectors) -> Counter[tuple[object, ...]]:
    return Counter(
        (call.tx, call.to, call.value, call.input, call.succeeded)
        for call in calls
        if is_watched(call.to, call.input, by)
    )
