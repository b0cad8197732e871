"""`select --set`: a number changes the rules or the policy, whichever has this name."""

import json

from oracle.cli.main import run
from tests.support.cli.refusal import run_refused_command
from tests.support.cli.task_files import write_events, write_task
from tests.support.histories import History


def write_single_node(folder):
    """Return a node with a stake and the model on disk, and a task for it."""
    events = write_events(
        folder, History().joins("A", stake=10**18, gpu_vram=24, models=("base",))
    )
    task_file = write_task(folder, models=["base"], min_vram=8)
    return ["select", "--task", str(task_file), "--events", str(events)]


def parts(capsys, *arguments):
    assert run([*arguments, "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["nodes"]
    return row["parts"]


def test_policy_and_rules_can_be_changed_together(capsys, tmp_path):
    options = (*write_single_node(tmp_path), "--set", "new_node_long_term=0.25")
    factors = parts(capsys, *options, "--set", "disk_boost=0.25")
    assert (factors["QoS"], factors["M"]) == ("0.250000000000000000", "1.250000000000000000")


def test_policy_without_scoring_rules_accepts_its_own_settings(capsys, tmp_path):
    options = (*write_single_node(tmp_path), "--policy", "article")
    assert parts(capsys, *options)["tickets"] == "10"
    assert parts(capsys, *options, "--set", "max_tickets=20")["tickets"] == "20"


def test_setting_unknown_to_rules_and_policy_is_rejected(capsys, tmp_path):
    options = (
        *write_single_node(tmp_path)[1:],
        "--policy",
        "legacy-equal",
        "--set",
        "weight_floor=1",
    )
    assert "--set: weight_floor: no such rule (available: " in run_refused_command(
        capsys, "select", *options
    )
