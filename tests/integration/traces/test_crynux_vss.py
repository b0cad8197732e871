"""The recorded VSSTask chain, rebuilt from JSON-RPC alone, equals the recorded truth."""

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from oracle.domain.blocks import BlockRange
from oracle.domain.fold.fold import Fold
from oracle.domain.ids import Address, TaskKey
from oracle.domain.state import Ending, Membership, Node, PendingLeave, Task
from oracle.indexer.stored_events import export_events
from oracle.queries.replay import replay_events
from oracle.systems.crynux.crynux_rule_sets import CRYNUX
from tests.integration.traces import truth
from tests.integration.traces.following import FOLDER, Follower, follow_recorded_chain, vss_reader
from tests.integration.traces.recorded_events import recorded_events
from tests.integration.traces.truth import TrueMember, TrueTask
from tests.support.reference import Reference

pytestmark = [pytest.mark.slow]

HEAD = 1375
# A block in the middle, with running tasks and joined nodes.
MIDDLE = 700


@pytest.fixture(scope="module")
def followed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Follower]:
    """Follow the complete chain in windows of 400 blocks."""
    url = f"sqlite:///{tmp_path_factory.mktemp('vss') / 'oracle.sqlite'}"
    with follow_recorded_chain(url, size=400) as follower:
        follower.follow(HEAD)
        yield follower


def tasks_of(follower: Follower, keys: Iterable[str]) -> dict[TaskKey, Task]:
    with follower.store.read_transaction() as uow:
        return uow.tasks.get_many(map(TaskKey, keys))


def as_true(task: Task) -> TrueTask:
    """Return a task in the form of the truth."""
    assert task.ending is not None
    assert task.ended_at is not None
    assert task.ended_time is not None
    return TrueTask(
        task.node,
        task.started_time,
        task.stopped_time,
        task.error_reported,
        task.ending.value,
        task.ended_time,
        task.ended_at.block,
        None if task.abort_reason is None else task.abort_reason.value,
    )


def members_of(follower: Follower) -> dict[str, list[TrueMember]]:
    """Return every closed group in the form of the truth."""
    members_by_group = {}
    for group in replay_export(follower)["groups"]:
        members_by_group[group["group"]] = [
            # An aborted member's time is not compared, because it has no rank.
            TrueMember(
                row["task"], row["node"], row["elapsed"] if row["rank"] else None, row["rank"]
            )
            for row in group["members"]
        ]
    return members_by_group


def replay_export(follower: Follower) -> dict[str, list[dict[str, Any]]]:
    """Return the output of `replay` for the file that `export` wrote."""
    with follower.store.read_transaction() as uow:
        lines = list(export_events(uow, follower.folder.reader, BlockRange(0, HEAD)))
    printed: dict[str, list[dict[str, Any]]] = json.loads(replay_events(lines, CRYNUX, None, None))
    return printed


def status(node: Node | None) -> str:
    """Return the status of a node, as the contract names it."""
    if node is None or node.membership is not Membership.MEMBER:
        return "Quit"
    if node.running:
        waits = {
            None: "Busy",
            PendingLeave.PAUSE: "PendingPause",
            PendingLeave.QUIT: "PendingQuit",
        }
        return waits[node.pending]
    return "Paused" if node.paused else "Available"


def test_recorded_tasks_match_the_ground_truth(followed: Follower):
    expected = truth.tasks()

    tasks = tasks_of(followed, expected)

    assert {key: as_true(task) for key, task in tasks.items()} == expected


def test_recorded_task_requirements_match_the_ground_truth(followed: Follower):
    wished = {
        row["task_id_commitment"]: (
            row["creator"].lower(),
            int(row["fee_wei"]),
            tuple(row["model_ids"]),
            row["min_vram"],
            row["required_gpu"],
            row["required_gpu_vram"],
            tuple(row["task_version"]),
            row["task_size"],
            row["task_type"].lower(),
            row["create_block"],
        )
        for row in truth.rows("task")
    }

    requirements = {
        key: (
            task.creator,
            task.fee,
            task.models,
            task.min_vram,
            task.required_gpu,
            task.required_gpu_vram,
            task.version,
            task.size,
            task.kind,
            task.created_at and task.created_at.block,
        )
        for key, task in tasks_of(followed, wished).items()
    }

    assert requirements == wished


def test_members_and_ranks_of_groups_match_the_ground_truth(
    followed: Follower,
):
    assert members_of(followed) == truth.groups()


def test_recorded_chain_has_no_anomaly_or_dead_letter(followed: Follower):
    with followed.store.read_transaction() as uow:
        logs = list(uow.logs.iterate_between(0, HEAD))
        calls = list(uow.calls.iterate_between(0, HEAD))

    assert followed.folder.reader.decode_rows(logs, calls).dead_letters == []
    assert replay_export(followed)["anomalies"] == []


def test_recorded_chain_has_timeouts_but_no_incident(followed: Follower):
    with followed.store.read_transaction() as uow:
        detector = uow.incidents.load_detector()
        assert uow.incidents.list_newest(1) == []
    assert sum(row.ends for row in detector.minutes) > 100
    assert sum(row.timeouts for row in detector.minutes) > 0


def test_recorded_nodes_match_the_final_state(followed: Follower):
    nodes = followed.nodes()

    assert {row["address"].lower() for row in truth.rows("node_final")} == nodes.keys()
    for row in truth.rows("node_final"):
        node = nodes[row["address"].lower()]
        assert status(node) == row["status"]
        # The contract deletes a node that quits; the index keeps its row.
        if row["status"] != "Quit":
            assert (node.gpu_name, node.gpu_vram, node.version, node.stake, set(node.models)) == (
                row["gpu"],
                row["vram"],
                tuple(row["version"]),
                int(row["stakedAmount"]),
                set(row["localModelIDs"]),
            )


def standing(nodes: Mapping[Address, Node], number: int) -> dict[str, str]:
    return {node: status(nodes.get(Address(node))) for node in truth.statuses()[number]}


def test_node_status_matches_the_ground_truth_after_every_block(followed: Follower):
    with followed.store.read_transaction() as uow:
        decoded = followed.folder.reader.decode_rows(
            list(uow.logs.iterate_between(0, HEAD)), list(uow.calls.iterate_between(0, HEAD))
        )
    fold = Fold(CRYNUX)
    events = iter(decoded.events)
    following_one = next(events, None)

    for number in range(HEAD + 1):
        of_block = []
        while following_one is not None and following_one.at.block == number:
            of_block.append(following_one)
            following_one = next(events, None)
        fold.fold_block(number, of_block, journal=False)
        assert (number, standing(fold.ledger.nodes, number)) == (number, truth.statuses()[number])


def test_node_status_matches_the_ground_truth_at_the_head(tmp_path: Path):
    with follow_recorded_chain(f"sqlite:///{tmp_path / 'oracle.sqlite'}", size=10) as follower:
        for number in range(25, HEAD, 50):
            follower.follow(number)
            statuses = standing(follower.nodes(), number)
            assert (number, statuses) == (number, truth.statuses()[number])


def test_scores_equal_those_of_the_reference_implementation(followed: Follower):
    events = recorded_events(FOLDER)

    expected = Reference().run(events, events[-1]["time"])

    printed = replay_export(followed)
    assert printed["nodes"] == expected["nodes"]
    assert printed["groups"] == expected["groups"]
    assert expected["odd"] == []


@pytest.mark.parametrize("size", [40, 2_000])
def test_window_size_does_not_change_the_database(
    size: int, database_url: str, followed: Follower
):
    with follow_recorded_chain(database_url, size=size) as follower:
        # In three steps: history, then the moving head.
        for number in (MIDDLE, MIDDLE + 100, HEAD):
            follower.follow(number)
        with (
            follower.store.read_transaction() as uow,
            followed.store.read_transaction() as followed_uow,
        ):
            assert uow.projections.compute_digest() == followed_uow.projections.compute_digest()


def test_indexing_from_mid_chain_records_all_later_tasks(tmp_path: Path):
    later = {
        row["task_id_commitment"]: truth.tasks()[row["task_id_commitment"]]
        for row in truth.rows("task")
        if row["create_block"] >= MIDDLE
    }
    url = f"sqlite:///{tmp_path / 'oracle.sqlite'}"
    with follow_recorded_chain(url, size=100, start_block=MIDDLE) as follower:
        follower.follow(HEAD)

        assert {key: as_true(t) for key, t in tasks_of(follower, later).items()} == later
        expected = {
            group: members
            for group, members in truth.groups().items()
            if {member.task for member in members} <= later.keys()
        }
        assert len(expected) == 9
        members_by_group = members_of(follower)
        assert {group: members_by_group[group] for group in expected} == expected
        # Nodes that joined before are no members, and all anomalies are about earlier
        # tasks.
        joined = {row["address"].lower() for row in truth.rows("node_action") if _joins(row)}
        members = {
            n.address for n in follower.nodes().values() if n.membership is Membership.MEMBER
        }
        assert members <= joined


def _joins(row: dict[str, object]) -> bool:
    return row["action"] == "join" and bool(row["ok"]) and int(str(row["block"])) >= MIDDLE


def test_task_without_upload_is_aborted_if_blame_missing_upload_is_off(tmp_path: Path):
    url = f"sqlite:///{tmp_path / 'oracle.sqlite'}"
    reader = vss_reader(blame_missing_upload=False)
    uploads = [
        row["task_id_commitment"]
        for row in truth.rows("task")
        if row["status_before_abort"] in {"Validated", "GroupValidated"}
    ]

    with follow_recorded_chain(url, size=2_000, reader=reader) as follower:
        follower.follow(HEAD)
        endings = {task.ending for task in tasks_of(follower, uploads).values()}

    assert len(uploads) == 5
    assert endings == {Ending.ABORTED}


def test_endpoint_without_block_receipts_gives_the_same_database(
    tmp_path: Path, followed: Follower
):
    with follow_recorded_chain(f"sqlite:///{tmp_path / 'oracle.sqlite'}", size=2_000) as follower:
        follower.provider.unsupported.add("eth_getBlockReceipts")
        follower.follow(HEAD)
        with (
            follower.store.read_transaction() as uow,
            followed.store.read_transaction() as followed_uow,
        ):
            assert uow.projections.compute_digest() == followed_uow.projections.compute_digest()
