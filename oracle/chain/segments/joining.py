"""Windows that continue each other, as one: what is ready together is committed together.

How large a transaction is changes nothing that is stored of the chain.
See docs/explanation/segments.md#one-transaction.
"""

from collections.abc import Sequence
from itertools import chain

from oracle.chain.fetch.fetcher import BlockWindow
from oracle.chain.profiles.event_reader import Decoded
from oracle.domain.blocks import BlockRange
from oracle.domain.log_table import LogTable


def is_continued(window: BlockWindow, following: BlockWindow) -> bool:
    """Tell whether the second one goes on where the first ends, alike in all that is stored.

    A window has one level and one endpoint: they stand in the ledger of what was read.
    """
    is_next = following.range.first == window.range.last + 1
    is_alike = (following.level, following.endpoint) == (window.level, window.endpoint)
    is_linked = following.first_parent == window.last.hash
    are_read = window.said is not None and following.said is not None
    return is_next and is_alike and is_linked and are_read


def joined(windows: Sequence[BlockWindow]) -> BlockWindow:
    """Return windows that continue each other as one; a single one stays as it is."""
    first, last = windows[0], windows[-1]
    if len(windows) == 1:
        return first
    return BlockWindow(
        BlockRange(first.range.first, last.range.last),
        first.first_parent,
        last.last,
        list(chain.from_iterable(one.headers for one in windows)),
        LogTable.joined(one.logs for one in windows),
        list(chain.from_iterable(one.calls for one in windows)),
        first.level,
        first.endpoint,
        tuple(chain.from_iterable(one.proven for one in windows)),
        _merge_decoded([one.said for one in windows if one.said is not None]),
    )


def _merge_decoded(parts: Sequence[Decoded]) -> Decoded:
    return Decoded(
        list(chain.from_iterable(part.events for part in parts)),
        list(chain.from_iterable(part.contract_events for part in parts)),
        list(chain.from_iterable(part.dead for part in parts)),
    )
