"""`select`: the candidates of a task, why other nodes are none, and which node is drawn."""

import io
import json
import sys
from hashlib import sha256

import pytest

from oracle.cli.main import run
from oracle.domain.events.jsonl import event_to_json
from tests.support.cli.refusal import run_refused_command
from tests.support.cli.task_files import write_events, write_task
from tests.support.histories import History, make_node_address, make_task_key

TOKENS = 10**18
SEED = "0x" + "11" * 32
GPU = {"gpu_name": "RTX 4090", "gpu_vram": 24, "version": (3, 0, 0)}


def network() -> History:
    """Return a network: A and B can run anything, C is busy, D paused, E too small; F left."""
    history = History()
    history.joins("A", stake=400 * TOKENS, models=("base",), **GPU)
    history.joins("B", stake=100 * TOKENS, models=("base", "lora"), **GPU)
    history.joins("C", stake=100 * TOKENS, **GPU)
    history.joins("D", stake=100 * TOKENS, **GPU)
    history.joins("E", stake=100 * TOKENS, gpu_name="GTX 1080", gpu_vram=8, version=(3, 0, 0))
    history.joins("F", stake=900 * TOKENS, **GPU)
    return history.after(10).starts("1", "C").pauses("D").quits("F")


@pytest.fixture
def events(tmp_path):
    return write_events(tmp_path, network())


@pytest.fixture
def task_path(tmp_path):
    return write_task(tmp_path, min_vram=16, models=["base"], version=[3, 0, 0], kind="sd")


def run_json(capsys, *arguments):
    assert run(["select", *map(str, arguments), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def run_and_read_output(capsys, *arguments):
    assert run(["select", *map(str, arguments)]) == 0
    return capsys.readouterr().out


def by_node(answer):
    return {row["node"]: row for row in answer["nodes"]}


def test_member_is_a_candidate_or_has_an_ineligibility_reason(capsys, events, task_path):
    rows = by_node(run_json(capsys, "--task", task_path, "--events", events))

    assert {name: rows[make_node_address(name)]["why_not"] for name in "ABCDE"} == {
        "A": None,
        "B": None,
        "C": "busy",
        "D": "paused",
        "E": "vram_too_small",
    }
    assert make_node_address("F") not in rows
    assert rows[make_node_address("C")]["chance"] is None


def test_candidate_shows_factors_of_its_probability(capsys, events, task_path):
    answer = run_json(capsys, "--task", task_path, "--events", events)
    rows = by_node(answer)

    # S = 1 and 1/2, QoS of a new node 1/2, M = 1.7 for a model on disk: W = 1.7/3 and 1.7/4.
    assert rows[make_node_address("A")]["parts"]["S"] == "1.000000000000000000"
    assert rows[make_node_address("B")]["parts"]["S"] == "0.500000000000000000"
    assert rows[make_node_address("A")]["parts"]["QoS"] == "0.500000000000000000"
    assert rows[make_node_address("A")]["parts"]["M"] == "1.700000000000000000"
    assert rows[make_node_address("A")]["weight"] == "566666666666666666"
    assert rows[make_node_address("B")]["weight"] == "425000000000000000"
    assert answer["sum"] == "991666666666666666"
    assert rows[make_node_address("A")]["chance"] == "0.571428571428571428"
    assert rows[make_node_address("B")]["chance"] == "0.428571428571428571"


def test_seed_determines_drawn_node(capsys, events, task_path):
    answer = run_json(capsys, "--task", task_path, "--events", events, "--seed", SEED)

    digest = sha256(bytes.fromhex(SEED[2:]) + bytes(32)).digest()
    x = int.from_bytes(digest, "big") % 991666666666666666
    first = make_node_address("A") if x < 566666666666666666 else make_node_address("B")
    assert answer["draws"] == [
        {
            "node": first,
            "digest": "0x" + digest.hex(),
            "x": str(x),
            "sum": "991666666666666666",
        }
    ]
    assert by_node(answer)[first]["drawn"] == 1


def test_select_does_not_draw_a_node_without_a_seed(capsys, events, task_path):
    answer = run_json(capsys, "--task", task_path, "--events", events)

    assert answer["seed"] is None
    assert answer["draws"] == []


def test_requesting_more_draws_than_candidates_is_reported(capsys, events, task_path):
    text = run_and_read_output(
        capsys, "--task", task_path, "--events", events, "--seed", SEED, "--draws", "3"
    )

    assert "3 draws were requested; there are no more candidates" in text


def test_nodes_with_a_task_of_the_same_group_are_ineligible(capsys, tmp_path):
    history = network().creates("2", of="g").starts("2", "A").after(5).submits("2").succeeds("2")
    events = write_events(tmp_path, history)
    group_key = "0x" + "67".rjust(64, "0")
    task_file = write_task(tmp_path, group=group_key)

    rows = by_node(run_json(capsys, "--task", task_file, "--events", events))

    assert rows[make_node_address("A")]["why_not"] == "taken"
    assert rows[make_node_address("B")]["candidate"]


def test_at_option_evaluates_nodes_at_an_earlier_time(capsys, events, task_path):
    answer = run_json(capsys, "--task", task_path, "--events", events, "--at", "1005")

    assert answer["as_of"] == {"block": 1, "time": 1005}
    assert by_node(answer)[make_node_address("C")]["why_not"] == "models_not_on_disk"
    assert make_node_address("F") in by_node(answer)


def test_select_table_fits_terminal_and_matches_json(capsys, events, task_path):
    text = run_and_read_output(capsys, "--task", task_path, "--events", events, "--seed", SEED)

    assert max(map(len, text.splitlines())) <= 100
    assert (
        f"{make_node_address('A')}      1  0.571428  1.000000  0.500000  1.700000  0.566666"
        in text
    )
    assert "vram too small" in text
    assert f"drawn by {SEED}" in text


def test_exported_task_is_read_from_stdin(capsys, events, monkeypatch):
    line = network().creates("7", min_vram=16).events[-1]
    stdin = io.TextIOWrapper(io.BytesIO(event_to_json(line).encode()))
    monkeypatch.setattr(sys, "stdin", stdin)
    answer = run_json(capsys, "--task", "-", "--events", events)

    stated = {name: value for name, value in answer["task"].items() if value is not None}
    assert stated == {"task": make_task_key("7"), "min_vram": 16, "models": []}


def test_changed_rules_are_named_in_header_and_json(capsys, events, task_path):
    options = ["--task", task_path, "--events", events]
    changes = ["--set", "tau_seconds=900", "--set", "weight_floor=0.02"]
    assert run_json(capsys, *options)["changed"] == {}
    answer = run_json(capsys, *options, *changes)
    assert answer["changed"] == {"tau_seconds": "900", "weight_floor": "0.02"}

    head = run_and_read_output(capsys, *options, *changes).splitlines()[:3]
    assert head[2] == "changed: tau_seconds=900, weight_floor=0.02"


def test_weight_floor_gives_a_node_without_stake_a_chance(capsys, tmp_path, task_path):
    history = network().joins("G", stake=0, models=("base",), **GPU)
    options = ["--task", task_path, "--events", write_events(tmp_path, history)]

    bare = by_node(run_json(capsys, *options, "--set", "weight_floor=0"))
    assert bare[make_node_address("G")]["chance"] == "0.000000000000000000"
    assert (
        by_node(run_json(capsys, *options))[make_node_address("G")]["weight"]
        == "10000000000000000"
    )
    floor = ["--set", "weight_floor=-1"]
    assert "must be a decimal" in run_refused_command(capsys, "select", *options, *floor)


def test_legacy_policy_draws_three_nodes_with_same_gpu(capsys, tmp_path):
    history = History().joins("A", "B", "C", gpu_name="RTX 4090", gpu_vram=24)
    history.joins("D", "E", gpu_name="RTX 3060", gpu_vram=12)
    events = write_events(tmp_path, history)
    task_file = write_task(tmp_path, kind="llm", min_vram=8)
    options = ["--task", task_file, "--events", events, "--policy", "legacy-equal", "--seed", SEED]

    answer = run_json(capsys, *options)
    rows = by_node(answer)

    assert {draw["node"] for draw in answer["draws"]} == {
        make_node_address(name) for name in "ABC"
    }
    assert (answer["gpu"]["name"], answer["gpu"]["sum"]) == ("RTX 4090", "3")
    assert rows[make_node_address("D")]["why_not"] == "too_few_of_its_gpu"
    assert rows[make_node_address("A")]["chance"] == "0.333333333333333333"
    assert max(map(len, run_and_read_output(capsys, *options).splitlines())) <= 100
    assert "draws 3 nodes, not 2" in run_refused_command(
        capsys, "select", *options, "--draws", "2"
    )


def test_missing_legacy_weights_are_rejected(capsys, events, task_path):
    line = run_refused_command(
        capsys, "select", "--task", task_path, "--events", events, "--policy", "legacy"
    )
    assert "legacy.vram_weight" in line
    assert "\n" not in line


def test_pocket_policy_shows_tickets_of_every_candidate(capsys, events, task_path):
    options = ["--task", task_path, "--events", events, "--policy", "pocket"]
    answer = run_json(capsys, *options)

    assert answer["policy"] == "article"
    assert {row["node"]: row["weight"] for row in answer["nodes"] if row["candidate"]} == {
        make_node_address("A"): "10",
        make_node_address("B"): "10",
    }
    assert answer["predownload"] is None
    text = run_and_read_output(capsys, *options)
    assert "10 of 10 tickets" in text
    assert max(map(len, text.splitlines())) <= 100


def test_scarce_model_is_suggested_for_download(capsys, tmp_path, task_path):
    history = network().joins("G", "H", stake=TOKENS, **GPU)
    answer = run_json(capsys, "--task", task_path, "--events", write_events(tmp_path, history))

    # Of the nodes that could run it but lack the model, by weight; equal ones by address.
    assert answer["predownload"] == [
        {
            "model": "base",
            "holders": 2,
            "pending": 0,
            "requested_nodes": [make_node_address(name) for name in "CGH"],
        },
    ]


def test_drawn_node_is_busy_in_download_suggestions(capsys, tmp_path, task_path):
    history = network().joins("G", stake=TOKENS, **GPU)
    options = ["--task", task_path, "--events", write_events(tmp_path, history), "--seed", SEED]
    assert run_json(capsys, *options)["predownload"] == [
        {
            "model": "base",
            "holders": 1,
            "pending": 0,
            "requested_nodes": [make_node_address("C"), make_node_address("G")],
        }
    ]


def test_control_characters_in_model_names_are_escaped(capsys, tmp_path, events):
    task_file = write_task(tmp_path, models=["\x1b[2Jgone", "[red]\n", "\u202eback"])
    text = run_and_read_output(capsys, "--task", task_file, "--events", events)

    assert r"\x1b[2Jgone, [red]\n, \u202eback" in text


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ('{"min_vram": -1}', "min_vram: must be a whole number"),
        ('{"vram": 8}', "vram: task_created has no such field"),
        ('{"kind": "gpt"}', "kind: must be one of"),
        ('{"min_vram": 8, "min_vram": 9}', "min_vram: the key is given twice"),
        ('{"type": "node_joined"}', "type: must be task_created"),
        ("[]", "expected a JSON object"),
        ("{", "invalid JSON"),
        ("", "invalid JSON"),
    ],
)
def test_invalid_task_is_rejected_with_reason(capsys, tmp_path, events, content, why):
    path = tmp_path / "wrong.json"
    path.write_text(content)
    line = run_refused_command(capsys, "select", "--task", path, "--events", events)
    assert f"{path}: {why}" in line
    assert "\n" not in line


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--seed", "0x12"], "--seed 0x12: must be 32 bytes"),
        (["--draws", "2"], "--draws: requires --seed"),
        (["--seed", SEED, "--draws", "0"], "--draws"),
        (["--policy", "fair"], "unknown policy 'fair'"),
        (["--set", "tau_seconds"], "--set tau_seconds: must be KEY=VALUE"),
        (["--set", "tau=5"], "--set: tau"),
        (["--at", "-1"], "--at"),
        (["--policy", ""], "unknown policy ''"),
    ],
)
def test_invalid_options_are_rejected(capsys, events, task_path, options, why):
    assert why in run_refused_command(
        capsys, "select", "--task", task_path, "--events", events, *options
    )


def test_stdin_for_both_task_and_events_is_rejected(capsys):
    assert "only one can read stdin" in run_refused_command(
        capsys, "select", "--task", "-", "--events", "-"
    )


def test_missing_task_option_is_rejected(capsys, events):
    assert "--task" in run_refused_command(capsys, "select", "--events", events)


def test_control_characters_in_options_are_escaped(capsys, events, task_path):
    for option in ("a\x1b[2J=1", "a\x1b[2J"):
        line = run_refused_command(
            capsys, "select", "--task", task_path, "--events", events, "--set", option
        )
        assert r"a\x1b[2J" in line
