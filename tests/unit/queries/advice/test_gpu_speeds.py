"""Every GPU of the network is compared with the node's GPU in the groups that both shared."""

import pytest

from oracle.chain.profiles.profile import Token
from oracle.domain.fixed_point import UNIT
from oracle.queries.advice.advice_sentences import format_gpu_rows
from oracle.queries.advice.gpu_speeds import (
    MIN_SHARED_GROUPS,
    GpuSpeed,
    list_gpu_speeds,
)
from oracle.queries.advice.what_if import build_what_if
from oracle.queries.api.gpu_table import (
    GpuTable,
    compare_gpus,
    count_members_by_gpu,
    get_node_gpu,
)
from tests.support.histories import History, fold_history, make_node_address
from tests.unit.queries.advice.records import FEE, race, record_of


def find_nothing(_qos: int) -> None:
    """Return no rank and no chance, for any QoS."""


SLOW = {"gpu_name": "RTX 3060", "gpu_vram": 12}
FAST = {"gpu_name": "RTX 4090", "gpu_vram": 24}


def shared_groups(number: int, fast_seconds: int | None = 10) -> History:
    """A and B have the same GPU and take 20 and 40 s, C a faster one; D has run no task."""
    history = History().joins("A", "B", **SLOW).joins("C", **FAST)
    for index in range(number):
        race(history, str(index), {"A": 20, "B": 40, "C": fast_seconds})
    return history.joins("D", gpu_name="H100", gpu_vram=80)


def speeds_after(history: History, name: str = "A") -> dict[str, GpuSpeed]:
    fold, changes = fold_history(history)
    answers = [
        [
            (member.node, member.elapsed)
            for member in result.members
            if member.rank is not None and member.node is not None and member.elapsed
        ]
        for result in changes.results
    ]
    nodes = fold.ledger.nodes
    table = GpuTable(count_members_by_gpu(nodes.values()), compare_gpus(answers, nodes))
    own_gpu = get_node_gpu(fold.ledger.nodes[make_node_address(name)])
    return {speed.name: speed for speed in list_gpu_speeds(own_gpu, table)}


def test_gpu_of_every_member_is_listed_with_its_shared_groups():
    speeds = speeds_after(shared_groups(MIN_SHARED_GROUPS))
    assert {gpu: (speed.nodes, speed.shared_groups) for gpu, speed in speeds.items()} == {
        "RTX 3060": (2, 0),
        "RTX 4090": (1, MIN_SHARED_GROUPS),
        "H100": (1, 0),
    }
    # Half of the pairs have the ratio 10/20, the other half 10/40.
    assert speeds["RTX 4090"].time_ratio == UNIT // 4
    assert [speed.is_own for speed in speeds.values()] == [True, False, False]


@pytest.mark.parametrize(
    ("groups", "fast_seconds"), [(MIN_SHARED_GROUPS - 1, 10), (MIN_SHARED_GROUPS, None)]
)
def test_gpus_with_few_shared_groups_have_no_speed_ratio(groups, fast_seconds):
    speeds = speeds_after(shared_groups(groups, fast_seconds))
    assert [speed.time_ratio for speed in speeds.values()] == [None, None, None]


def test_node_with_unknown_gpu_has_no_comparison():
    history = shared_groups(MIN_SHARED_GROUPS).joins("E")
    speeds = speeds_after(history, "E")
    assert [(speed.is_own, speed.time_ratio) for speed in speeds.values()] == [(False, None)] * 3


def test_what_if_shows_each_gpu_or_reason_for_omission():
    history = shared_groups(MIN_SHARED_GROUPS)
    record = record_of(history)
    gpus = list(speeds_after(history).values())
    what_if = build_what_if(record, find_nothing, find_nothing, gpus, seconds=86_400)
    assert what_if is not None
    as_it_is, faster, another_gpu = what_if.rows
    # Second in every group; 16 s stay second, 5 s are first.
    assert (as_it_is.qos, faster.qos, another_gpu.qos) == (UNIT // 2, UNIT // 2, UNIT)
    assert another_gpu.gpu is not None
    assert another_gpu.gpu.name == "RTX 4090"
    # A second place has 5 of the 17 points of a group, a first one 10.
    day = MIN_SHARED_GROUPS * FEE
    assert (as_it_is.fees_per_day, another_gpu.fees_per_day) == (day * 5 // 17, day * 10 // 17)
    fast, own, unknown = format_gpu_rows(what_if, Token("CNX", 0))
    assert (fast[0], own[0]) == ("RTX 4090 with 24 GB", "RTX 3060 with 12 GB (its own)")
    assert fast[3:6] == ("25.0 %", "10.00", "1.00")
    assert f"0 of at least {MIN_SHARED_GROUPS}" in unknown[3]
    assert not any(unknown[4:])
