"""The opening block of a window is stored once, and is deleted with the window."""

from dataclasses import replace

import pytest

from oracle.bindings.probe_calls import (
    ProbeOrder,
    compute_probe_task_keys,
    compute_total_probe_fee,
    decode_probe_nodes,
    encode_probe_call,
    encode_validate_group_call,
)
from oracle.dispatch.probe_wants import ProbeSettings, ProbeWindowHook, get_open_window
from oracle.domain.blocks import BlockRef
from oracle.domain.events.network_events import TaskKind
from oracle.domain.ids import Address, Hash
from oracle.store.database import Store
from oracle.store.outbox.records import Stamp
from tests.support.rounds import build_contract_state

SECONDS = 100
ORDER = ProbeOrder(TaskKind.SD, ("sdxl",), size=1, timeout=30, fee=7)
SETTINGS = ProbeSettings(SECONDS, 1_000, group=True, order=ORDER)
STAMP = Stamp(0, 1)
NODES = tuple(Address(f"0x{number:040x}") for number in (1, 2, 3))


def block(number: int, time: int) -> BlockRef:
    return BlockRef(number, Hash(f"0x{number:064x}"), Hash(f"0x{number - 1:064x}"), time)


def test_probe_window_opens_at_its_first_block():
    hook = ProbeWindowHook(SETTINGS)
    chain = [block(1, 90), block(2, 99), block(3, 100), block(4, 150), block(5, 330)]
    assert hook.select_stop_blocks(chain, 5) == [block(3, 100), block(5, 330)]
    assert ProbeWindowHook(None).select_stop_blocks(chain, 5) == []


def test_probe_window_stays_open_until_next_window_or_reorg(sqlite_url: str):
    hook = ProbeWindowHook(SETTINGS)
    with Store.open(sqlite_url) as store, store.transaction() as uow:
        hook.on_block(uow, build_contract_state(), block(3, 100), -1)
        window = get_open_window(uow, SETTINGS, 199)
        assert window is not None
        assert (window.number, window.start, window.seed) == (1, 100, block(3, 100).hash)
        assert get_open_window(uow, SETTINGS, 200) is None
        assert get_open_window(uow, replace(SETTINGS, window_seconds=150), 160) is None
        hook.on_rewind(uow, 3, STAMP)
        assert get_open_window(uow, SETTINGS, 199) == window
        hook.on_rewind(uow, 2, STAMP)
        assert get_open_window(uow, SETTINGS, 199) is None


def test_probe_call_decodes_to_its_nodes_fees_and_tasks():
    calldata = encode_probe_call(ORDER, 4, NODES, (1, 2, 3))
    assert decode_probe_nodes(calldata) == NODES
    assert compute_total_probe_fee(calldata) == 21
    keys = compute_probe_task_keys(calldata, NODES[0])
    assert len(set(keys)) == 3
    assert all(key[2:] in encode_validate_group_call(calldata, NODES[0]) for key in keys)


def test_probe_task_keys_differ_by_window_and_node():
    first, later = (encode_probe_call(ORDER, window, NODES[:1], (1, 0, 0)) for window in (4, 5))
    other_calldata = encode_probe_call(ORDER, 4, NODES[1:2], (1, 0, 0))
    keys = {
        compute_probe_task_keys(calldata, NODES[0])[0]
        for calldata in (first, later, other_calldata)
    }
    assert len(keys) == 3


def test_system_task_without_fee_is_rejected():
    with pytest.raises(ValueError, match="fee_wei must be at least 1"):
        replace(SETTINGS, order=replace(ORDER, fee=0))
