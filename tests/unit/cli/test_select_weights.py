"""The weights that `select` shows add up to the sum of the draw."""

from tests.support.cli.task_files import write_events, write_task
from tests.support.histories import History, make_node_address
from tests.unit.cli.test_select_commands import SEED, TOKENS, run_and_read_output, run_json

# With a floor, every candidate has a weight.
UNFLOORED = ("--set", "weight_floor=0")


def test_candidates_are_equally_likely_if_all_weights_are_zero(capsys, tmp_path):
    events = write_events(tmp_path, History().joins("A").joins("B").joins("C"))
    options = [*UNFLOORED, "--task", write_task(tmp_path), "--events", events, "--seed", SEED]
    answer = run_json(capsys, *options)
    assert [row["parts"]["W"] for row in answer["nodes"]] == 3 * ["0.000000000000000000"]
    # The shown weights add up to the modulus of x.
    assert [row["weight"] for row in answer["nodes"]] == 3 * ["1"]
    assert answer["sum"] == answer["draws"][0]["sum"] == "3"
    assert "all have the same probability" in run_and_read_output(capsys, *options)


def test_zero_weight_stays_zero_if_another_node_has_weight(capsys, tmp_path):
    events = write_events(tmp_path, History().joins("A", stake=TOKENS).joins("B"))
    options = [*UNFLOORED, "--task", write_task(tmp_path), "--events", events]
    weights = {row["node"]: int(row["weight"]) for row in run_json(capsys, *options)["nodes"]}
    assert weights == {make_node_address("A"): TOKENS // 3, make_node_address("B"): 0}
    assert "all have the same probability" not in run_and_read_output(capsys, *options)
