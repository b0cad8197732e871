"""The planned download requests by node and model, on both databases."""

import pytest

from oracle.domain.state import DownloadRequest
from oracle.store.database import Store
from oracle.store.state.draw_repository import PlannedDownload
from tests.unit.store.samples import address, block, node, task_key


@pytest.mark.parametrize("model", ["base", "a\x00b", "\\0", "é\u202e"])
def test_planned_downloads_round_trip_with_any_model_name(store: Store, model: str):
    with store.transaction() as uow:
        uow.downloads.add(task_key(1), model, [address(2), address(1)], block(7))
    with store.read_transaction() as uow:
        assert uow.downloads.list_since(0) == [
            PlannedDownload(task_key(1), model, address(node_number), 7, 14)
            for node_number in (1, 2)
        ]
        assert uow.downloads.list_since(14) == []


def test_rewind_removes_plans_above_block(store: Store):
    with store.transaction() as uow:
        for number in (5, 6, 7):
            uow.downloads.add(task_key(number), "base", [address(number)], block(number))
        uow.downloads.delete_above(6)
        assert [planned_download.block for planned_download in uow.downloads.list_since(0)] == [
            5,
            6,
        ]


def test_only_nodes_with_download_requests_are_returned(store: Store):
    requested_node = node(2, downloads=(DownloadRequest("base", 1, 2),))
    with store.transaction() as uow:
        uow.nodes.save([node(1), requested_node])
        assert uow.nodes.list_with_requested_downloads() == [requested_node]
