"""The test contracts of Crynux's first generation emit the original events in their order.

By the table of docs/explanation/crynux.md#commit-and-disclose-contracts and the vectors
`event_sequences` (a-01 to a-08) and `event_counts_gen_a`, which come from the contracts and their
own tests.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from eth_utils.crypto import keccak

from tests.integration.profiles.commit_ledger import Job
from tests.integration.profiles.commit_network import CommitNetwork, a_commit_network
from tests.support.evm.chain import Receipt
from tests.support.vectors import load_entries

pytestmark = [pytest.mark.slow, pytest.mark.evm]


@pytest.fixture(scope="module")
def deployed() -> Iterator[CommitNetwork]:
    with a_commit_network() as network:
        yield network


@pytest.fixture
def network(deployed: CommitNetwork) -> Iterator[CommitNetwork]:
    """Yield three free nodes, and undo the test's changes."""
    with deployed.chain.undone():
        fresh = CommitNetwork(deployed.chain, deployed.node, deployed.task)
        fresh.join(*fresh.nodes[:3])
        fresh.mine()
        yield fresh


def format_events(receipt: Receipt, *names: str) -> list[str]:
    """Return the events in short, `TaskStarted 2 0` for task and round; all of them, or those
    with these names.
    """
    return [
        _short(event.event, event.args)
        for event in receipt.events
        if event.event in names or not names
    ]


def _short(event: str, args: dict[str, Any]) -> str:
    shown_values = [args[name] for name in ("taskId", "round", "reason") if name in args]
    return " ".join(map(str, [event, *shown_values]))


def sequence(name: str) -> list[list[str]]:
    """Return the logs of each call by a vector, without arguments and optional ones."""
    (vector,) = (
        entry for key, entry in load_entries().items() if f"event_sequences/{name} " in key
    )
    return [
        [log.partition("(")[0] for log in call["events_in_log_order"] if log[0] not in "[("]
        for call in vector["transactions"]
    ]


def list_logged_names(receipts: list[Receipt]) -> list[list[str]]:
    return [receipt.names for receipt in receipts]


def start_job(network: CommitNetwork) -> Job:
    job = network.create()
    network.mine()
    return job


def commit_results(network: CommitNetwork, *results: bytes) -> Job:
    job = start_job(network)
    for place, result in enumerate(results):
        network.commit(job, place, result=result)
    network.mine()
    return job


RIGHT, WRONG, OTHER = b"right", b"wrong", b"other"


def test_logs_of_a_task_with_three_equal_results_match_the_vector(network: CommitNetwork):
    job = network.create()
    receipts = network.mine()
    network.commit(job, 2, 0, 1)
    receipts += network.mine()
    network.disclose(job, 1, 0, 2)
    network.upload(job)
    receipts += network.mine()
    vector = sequence("a-01")
    # The rounds of a start are in one call, each with separate arguments.
    assert list_logged_names(receipts) == vector
    assert format_events(receipts[0]) == [
        "TaskPending 1",
        *(f"TaskStarted 1 {place}" for place in range(3)),
    ]
    assert job.winner is job.parts[1]
    assert receipts[5].only("TaskSuccess")["resultNode"].lower() == job.parts[1].node
    assert receipts[5].only("TaskNodeSuccess")["nodeAddress"].lower() == job.parts[0].node


def test_logs_match_the_vector_if_the_third_node_has_a_wrong_result(network: CommitNetwork):
    job = commit_results(network, RIGHT, RIGHT, WRONG)
    network.disclose(job, 0, 1)
    network.disclose(job, 2, result=WRONG)
    assert list_logged_names(network.mine())[-1:] == sequence("a-02")


def test_logs_match_the_vector_if_the_second_node_has_a_wrong_result(network: CommitNetwork):
    job = commit_results(network, RIGHT, WRONG, RIGHT)
    network.disclose(job, 0)
    network.disclose(job, 1, result=WRONG)
    network.disclose(job, 2)
    assert list_logged_names(network.mine())[-2:] == [[], *sequence("a-03")[-1:]]
    assert job.winner is job.parts[0]


def test_three_different_results_cancel_the_task_of_every_node(network: CommitNetwork):
    job = commit_results(network, RIGHT, WRONG, OTHER)
    for place, result in ((2, OTHER), (0, RIGHT), (1, WRONG)):
        network.disclose(job, place, result=result)
    receipt = network.mine()[-1]
    assert [receipt.names] == sequence("a-04")
    cancelled = [event.args["nodeAddress"].lower() for event in receipt.events[:3]]
    assert cancelled == [job.parts[place].node for place in (2, 0, 1)]


def test_three_error_reports_abort_the_task(network: CommitNetwork):
    job = start_job(network)
    network.report_error(job, 1, 0, 2)
    receipts = network.mine()
    assert list_logged_names(receipts) == sequence("a-05")
    order = [event.args["nodeAddress"].lower() for event in receipts[1].events[:2]]
    assert order == [job.parts[0].node, job.parts[1].node]


def test_two_error_reports_slash_the_node_with_a_result(
    network: CommitNetwork,
):
    job = start_job(network)
    network.commit(job, 1)
    network.report_error(job, 0, 2)
    assert format_events(network.mine()[-1])[2:] == [
        "TaskAborted 1 Task error reported",
        "NodeSlashed",
        "TaskNodeSlashed 1",
    ]


def test_two_results_slash_the_node_with_an_error_report(network: CommitNetwork):
    job = start_job(network)
    network.report_error(job, 0)
    network.commit(job, 1, 2)
    network.disclose(job, 2, 1)
    names = list_logged_names(network.mine())
    assert names[2] == ["TaskResultCommitmentsReady"]
    assert names[-1] == ["TaskNodeSuccess", "NodeSlashed", "TaskNodeSlashed", "TaskSuccess"]


def test_cancellation_without_commitments_cancels_the_task_of_every_node(network: CommitNetwork):
    job = start_job(network)
    network.later(900)
    network.cancel(job, sender=network.nodes[0])
    assert list_logged_names(network.mine()) == [["TaskAborted", *3 * ["TaskNodeCancelled"]]]


def test_cancellation_after_a_success_without_upload_aborts_the_task(network: CommitNetwork):
    job = commit_results(network, RIGHT, RIGHT, RIGHT)
    network.disclose(job, 1, 0)
    network.mine()
    network.later(900)
    network.cancel(job)
    (receipt,) = network.mine()
    cancelled = [event.args["nodeAddress"].lower() for event in receipt.events[1:]]
    assert format_events(receipt)[0] == "TaskAborted 1 Task Cancelled"
    assert cancelled == [job.parts[1].node, job.parts[2].node]


def test_cancellation_after_two_error_reports_does_not_abort_it_twice(network: CommitNetwork):
    job = start_job(network)
    network.report_error(job, 0, 1)
    network.mine()
    network.later(900)
    network.cancel(job)
    assert list_logged_names(network.mine()) == [["TaskNodeCancelled"]]


def test_waiting_task_may_be_cancelled_by_anyone(network: CommitNetwork):
    start_job(network)
    waiting = network.create()
    network.cancel(waiting, sender=network.stranger)
    assert [format_events(receipt) for receipt in network.mine()] == [
        ["TaskPending 2"],
        ["TaskAborted 2 Task Cancelled"],
    ]


def test_cheapest_waiting_task_is_evicted(network: CommitNetwork):
    start_job(network)
    for fee in (3, 2, 5):
        network.create(fee)
    assert format_events(network.mine()[-1]) == [
        "TaskAborted 3 Task fee is too low",
        "TaskPending 4",
    ]


def test_logs_of_a_cancelled_and_the_next_started_task_are_interleaved(network: CommitNetwork):
    first = start_job(network)
    network.create(5)
    network.mine()
    network.later(900)
    network.cancel(first)
    assert format_events(network.mine()[-1]) == [
        "TaskAborted 1 Task Cancelled",
        "TaskNodeCancelled 1",
        "TaskNodeCancelled 1",
        *(f"TaskStarted 2 {place}" for place in range(3)),
        "TaskNodeCancelled 1",
    ]


def test_waiting_task_starts_when_third_node_joins(network: CommitNetwork):
    network.quit(network.nodes[0])
    network.create()
    network.join(network.nodes[3])
    receipts = network.mine()
    assert format_events(receipts[1]) == ["TaskPending 1"]
    assert format_events(receipts[2]) == [f"TaskStarted 1 {place}" for place in range(3)]


def test_node_without_points_is_kicked_before_its_task_ends(
    network: CommitNetwork,
):
    for _ in range(2):
        job = start_job(network)
        network.commit(job, 0, 1)
        network.mine()
        network.later(900)
        network.cancel(job)
        (receipt,) = network.mine()
    assert format_events(receipt)[-2:] == ["NodeKickedOut", "TaskNodeCancelled 2"]
    # The other two were free before: the longest free node gets the next task.
    assert network.status_of(job.parts[2].node) == 0


def let_two_nodes_agree(network: CommitNetwork, third: bytes | None) -> Job:
    """Let two nodes agree and submit; the third discloses another result, or nothing."""
    job = commit_results(network, RIGHT, RIGHT, third or RIGHT)
    network.disclose(job, 0, 1)
    network.upload(job)
    if third is not None:
        network.disclose(job, 2, result=third)
    return job


def one_error_report(network: CommitNetwork) -> Job:
    job = start_job(network)
    network.commit(job, 0, 1)
    network.report_error(job, 2)
    network.disclose(job, 0, 1)
    network.upload(job)
    return job


SCENARIOS = {
    "3 correct": lambda network: let_two_nodes_agree(network, RIGHT),
    "2 correct + 1 cheat": lambda network: let_two_nodes_agree(network, WRONG),
    "2 correct + 1 error report": one_error_report,
    "2 disclose + 1 timeout": lambda network: let_two_nodes_agree(network, None),
    "all different / all cancelled": start_job,
}


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_event_counts_match_the_vectors(network: CommitNetwork, scenario: str):
    (expected_counts,) = (
        {name: count for name, count in vector.items() if name != "scenario"}
        for name, vector in load_entries().items()
        if "event_counts_gen_a/cases" in name and vector["scenario"] == scenario
    )
    first = network.chain.block
    job = SCENARIOS[scenario](network)
    network.mine()
    if job.open_parts:
        network.later(900)
        network.cancel(job)
        network.mine()
    log_filter = {"address": network.task.address, "fromBlock": hex(first), "toBlock": "latest"}
    logs = network.chain.rpc("eth_getLogs", log_filter)
    topics = Counter(log["topics"][0] for log in logs)
    event_counts = {name: topics["0x" + keccak(text=text).hex()] for name, text in PARTS.items()}
    assert {name: count for name, count in event_counts.items() if count} == expected_counts


PARTS = {
    "TaskNodeSuccess": "TaskNodeSuccess(uint256,address,uint256)",
    "TaskNodeSlashed": "TaskNodeSlashed(uint256,address)",
    "TaskNodeCancelled": "TaskNodeCancelled(uint256,address)",
}
