"""Weights as `select` shows them: what adds up to the sum that is drawn from."""

from tests.support.cli.task_files import write_events, write_task
from tests.support.histories import History, node_address
from tests.unit.cli.test_select_commands import SEED, TOKENS, printed, run_json

# Under a floor everybody weighs something.
UNFLOORED = ("--set", "weight_floor=0")


def test_candidates_that_all_have_zero_weight_have_equal_probability(capsys, tmp_path):
    events = write_events(tmp_path, History().joins("A").joins("B").joins("C"))
    options = [*UNFLOORED, "--task", write_task(tmp_path), "--events", events, "--seed", SEED]
    answer = run_json(capsys, *options)
    assert [row["parts"]["W"] for row in answer["nodes"]] == 3 * ["0.000000000000000000"]
    # What is shown adds up to the sum that x was taken modulo of.
    assert [row["weight"] for row in answer["nodes"]] == 3 * ["1"]
    assert answer["sum"] == answer["draws"][0]["sum"] == "3"
    assert "all have the same probability" in printed(capsys, *options)


def test_zero_weight_stays_zero_when_another_node_has_weight(capsys, tmp_path):
    events = write_events(tmp_path, History().joins("A", stake=TOKENS).joins("B"))
    options = [*UNFLOORED, "--task", write_task(tmp_path), "--events", events]
    weights = {row["node"]: int(row["weight"]) for row in run_json(capsys, *options)["nodes"]}
    assert weights == {node_address("A"): TOKENS // 3, node_address("B"): 0}
    assert "all have the same probability" not in printed(capsys, *options)
