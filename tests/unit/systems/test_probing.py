"""Which nodes get a system task in a window, when, and with which other nodes."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, strategies as st

from oracle.domain.fixed_point import UNIT
from oracle.domain.ids import Address, Hash
from oracle.domain.state import Membership, Node
from oracle.systems.crynux.crynux_rule_sets import CRYNUX
from oracle.systems.crynux.requirements import find_unavailability_reason
from oracle.systems.probing import Probe, ProbeWindow, is_idle_in_window, select_due_probes
from tests.support.histories import make_node_address
from tests.unit.systems.crynux.scenes import a_node

WINDOW = ProbeWindow(number=10, seconds=10_000, seed=Hash("0x" + "5e" * 32))
END = WINDOW.start + WINDOW.seconds - 1

_hashes = st.binary(min_size=32, max_size=32).map(lambda raw: Hash("0x" + raw.hex()))


def at_rest(name: str, **values: object) -> Node:
    plain = {"version": (1, 0, 0), "gpu_name": "RTX", "gpu_vram": 24, "last_start": 5}
    return a_node(name, **(plain | values))


@st.composite
def staffs(draw: st.DrawFn) -> list[Node]:
    names = draw(st.lists(st.sampled_from("ABCDEFGH"), unique=True))
    return [
        at_rest(
            name,
            gpu_name=draw(st.sampled_from(("RTX", "GTX"))),
            version=draw(st.sampled_from((None, (1, 0, 0), (1, 2, 0), (2, 0, 0)))),
            last_start=draw(st.none() | st.integers(WINDOW.start - 10, WINDOW.start + 10)),
            base=draw(st.integers(0, UNIT)),
            running=draw(st.integers(0, 1)),
            paused=draw(st.booleans()),
            membership=draw(st.sampled_from((Membership.MEMBER, Membership.QUIT))),
        )
        for name in names
    ]


def due(
    nodes: Sequence[Node],
    time: int = END,
    *,
    models: frozenset[str] = frozenset(),
    group: bool = False,
) -> list[Probe]:
    return select_due_probes(nodes, WINDOW, time, CRYNUX, models=models, with_companions=group)


def firsts(probes: Sequence[Probe]) -> list[Address]:
    return [probe.nodes[0] for probe in probes]


@pytest.mark.parametrize("group", [False, True])
@given(nodes=staffs(), time=st.integers(WINDOW.start, END))
def test_probes_use_each_available_node_at_most_once(nodes: list[Node], time: int, group: Any):
    rows = {candidate.address: candidate for candidate in nodes}
    probes = due(nodes, time, group=group)
    used = [address for probe in probes for address in probe.nodes]

    assert len(used) == len(set(used))
    assert all(
        find_unavailability_reason(rows[probed_address], time, CRYNUX) is None
        for probed_address in used
    )
    assert all(is_idle_in_window(rows[first_address], WINDOW) for first_address in firsts(probes))
    assert all(
        WINDOW.compute_probe_due_time(rows[first_address].address) <= time
        for first_address in firsts(probes)
    )


@given(staffs())
def test_probe_group_has_three_nodes_with_one_gpu_model_and_major_version(nodes: list[Node]):
    rows = {candidate.address: candidate for candidate in nodes}
    for probe in due(nodes, group=True):
        team = [rows[probed_address] for probed_address in probe.nodes]
        assert len(team) in {1, 3}
        assert len({(team_node.gpu_name, team_node.gpu_vram) for team_node in team}) == 1
        versions = [team_node.version for team_node in team if team_node.version is not None]
        assert probe.version == min(versions)
        assert len({version[0] for version in versions}) == 1


@given(staffs())
def test_every_idle_node_is_probed_by_the_end_of_its_window(nodes: list[Node]):
    used = {address for probe in due(nodes) for address in probe.nodes}
    for candidate in nodes:
        able = (
            find_unavailability_reason(candidate, END, CRYNUX) is None
            and candidate.version is not None
        )
        assert (candidate.address in used) == (able and is_idle_in_window(candidate, WINDOW))


@given(_hashes, st.sampled_from("ABCDEFGH"), st.integers(1, 100_000))
def test_probe_time_lies_in_first_part_of_window(seed: Hash, name: str, seconds: int):
    window = ProbeWindow(7, seconds, seed)
    when = window.compute_probe_due_time(make_node_address(name)) - window.start
    assert 0 <= when < max(1, seconds - seconds // 10)


def test_probe_times_depend_on_seed():
    other_window = WINDOW._replace(seed=Hash("0x" + "11" * 32))
    times = [
        (
            WINDOW.compute_probe_due_time(make_node_address(name)),
            other_window.compute_probe_due_time(make_node_address(name)),
        )
        for name in "ABCDEFGH"
    ]
    assert all(first_time != two for first_time, two in times)


def test_untried_nodes_are_probed_first_then_those_with_low_reliability():
    nodes = [
        at_rest("A"),
        at_rest("B", base=UNIT * 8 // 10, since=END),
        at_rest("C", base=UNIT * 2 // 10, since=END),
        at_rest("D", last_start=None),
        at_rest("E", last_start=4),
    ]
    assert firsts(due(nodes)) == [make_node_address(name) for name in "DCBEA"]


def test_group_probe_prefers_nodes_without_a_recent_task():
    busy = [at_rest(name, last_start=END - 1) for name in "ABCD"]
    idle = [at_rest(name) for name in "EFG"]
    (probe,) = due([*busy, *idle], group=True)
    assert set(probe.nodes) == {make_node_address(name) for name in "EFG"}


def test_node_lacking_model_is_not_probed():
    nodes = [at_rest("A", models=("sdxl", "x")), at_rest("B", models=("x",))]
    assert firsts(due(nodes, models=frozenset({"sdxl"}))) == [make_node_address("A")]
