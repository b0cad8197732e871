"""`attack` and `backtest --closed-loop`: their output and their errors."""

import json
from html.parser import HTMLParser

import pytest

from oracle.cli.main import run

SMALL = ("--tasks", "150", "--nodes", "6", "--jobs", "1")
ONE = ("--rules", "crynux", "--strategy", "silent", *SMALL)


def run_and_capture(capsys, *arguments):
    code = run([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def run_rejected(capsys, *arguments):
    code, out, err = run_and_capture(capsys, *arguments)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    return err


def test_same_seed_prints_same_output(capsys):
    assert run_and_capture(capsys, "attack", *ONE) == run_and_capture(capsys, "attack", *ONE)
    assert run_and_capture(capsys, "attack", *ONE) != run_and_capture(
        capsys, "attack", *ONE, "--seed", "1"
    )


def test_table_fits_in_100_columns(capsys):
    code, out, _ = run_and_capture(capsys, "attack", *ONE, "--strategy", "fake-alone")
    assert code == 0
    assert "silent" in out
    assert "known: gain" in out
    assert max(map(len, out.splitlines())) <= 100


def test_json_contains_plan_and_every_run(capsys):
    _, out, _ = run_and_capture(capsys, "attack", *ONE, "--runs", "2", "--json")
    answer = json.loads(out)
    assert answer["plan"]["network"]["tolls"] is True
    (finding,) = answer["findings"]
    assert finding["strategy"] == "silent"
    assert finding["gain"].startswith("-")
    assert len(finding["runs"]) == 2
    attacker = finding["runs"][0]["attack"]["attacker"]
    assert attacker["earned"] == 0 < attacker["computing"] + attacker["hosting"]


def test_attack_gain_above_the_limit_exits_with_1(capsys):
    arguments = ("attack", "--rules", "crynux", "--strategy", "fake-alone", *SMALL)
    assert run_and_capture(capsys, *arguments, "--limit", "5")[0] == 0
    # Free for the attacker, expensive for the others.
    trap = ("attack", "--rules", "crynux", "--strategy", "skip-groups", *SMALL, "--limit", "0")
    network = ("--network", "gpu_second=100000000")
    code, out, _ = run_and_capture(capsys, *trap, *network)
    assert code == 1
    assert "found: gain" in out


def test_html_page_is_one_file_without_external_resources(capsys, tmp_path):
    page = tmp_path / "attack.html"
    code, _, err = run_and_capture(capsys, "attack", *ONE, "--html", page)
    assert code == 0
    assert f"wrote {page}" in err
    text = page.read_text("utf-8")
    assert "default-src" in text
    assert not any(fragment in text for fragment in ("http://", "https://", "<script"))
    HTMLParser().feed(text)
    assert "silent, crynux:" in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "no system to attack is given; choose one with --rules"),
        (("--rules", "article"), "does not score groups"),
        (("--rules", "crynux", "--strategy", "bribe"), "unknown strategy 'bribe'"),
        (("--rules", "crynux", "--network", "tax=1"), "tax: no such parameter"),
        (("--rules", "crynux", "--nodes", "2"), "--nodes: must be 3 to"),
    ],
)
def test_invalid_attack_arguments_fail_with_one_line_error(capsys, arguments, message):
    assert message in run_rejected(capsys, "attack", *arguments)


def test_closed_loop_comparison_needs_no_event_history(capsys):
    loop = ("backtest", "--closed-loop", "--rules", "crynux", "--rules", "relay", *SMALL)
    code, out, _ = run_and_capture(capsys, *loop)
    assert code == 0
    assert "wrongful" in out
    _, out, _ = run_and_capture(capsys, *loop, "--json")
    assert [system["system"] for system in json.loads(out)["systems"]] == ["crynux", "relay"]


def test_attack_search_reports_trials_and_best_parameters(capsys):
    options = ("--search", "weight_floor=0,0.5", "--goal", "wasted=2,gini", "--json")
    _, out, _ = run_and_capture(
        capsys, "backtest", "--closed-loop", "--rules", "crynux", *options, *SMALL
    )
    answer = json.loads(out)
    tried = [trial["changes"] for trial in answer["trials"]]
    assert tried[0] == {}
    assert {"weight_floor": "0"} in tried
    assert answer["trials"][0]["distance"] == "1.000000000000000000"
    assert answer["best"] in tried
    assert float(answer["distance"]) == min(float(trial["distance"]) for trial in answer["trials"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--search", "tau_seconds=900"), "--search requires --closed-loop"),
        (("--closed-loop", "--search", "tau=900"), "tau: no such rule"),
        (
            ("--closed-loop", "--search", "tau_seconds=900", "--goal", "luck"),
            "unknown measure 'luck'",
        ),
        (("--closed-loop", "--search", "tau_seconds=0"), "tau_seconds: must be 1 or more"),
        (("--closed-loop", "--from", "5"), "cannot be combined with --from"),
        (
            ("--closed-loop", "--search", "boost=0", "--set", "penalty=0.5"),
            "cannot be combined with --set",
        ),
    ],
)
def test_invalid_closed_loop_arguments_fail_with_one_line_error(capsys, arguments, message):
    assert message in run_rejected(capsys, "backtest", "--rules", "crynux", *SMALL, *arguments)
