"""`POST /v1/select`: the block of the response is the block whose nodes were read."""

from dataclasses import replace

from oracle.domain.blocks import Position
from oracle.domain.events.network_events import TaskCreated
from oracle.queries.api.records.draw_view import build_selection_answer
from tests.support.api import IndexedHistory
from tests.support.histories import History, make_node_address, make_task_key


def test_selection_response_ignores_a_block_folded_meanwhile(store):
    history = History().joins("A").after(5)
    indexed = IndexedHistory(store).whole(history)
    first_block = history.block
    count = len(history.events)
    history.after(5).joins("B")

    def fold_next_block() -> int:
        """Fold a block while the response reads the clock, inside its snapshot."""
        indexed.index(history.events[count:], history.block, history.time)
        return indexed.now

    source = replace(indexed.source, clock=fold_next_block)
    event = TaskCreated(
        at=Position(0, 0, 0), time=history.time, task=make_task_key("1"), group=None
    )
    answer = build_selection_answer(source, event)
    assert answer.as_of.block == first_block
    assert [row.node for row in answer.nodes] == [make_node_address("A")]
