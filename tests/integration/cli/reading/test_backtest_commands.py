"""`backtest`: its output, files, errors and exit codes."""

import io
import json
import re
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

from lab.backtest import worker_pool
from oracle.cli.main import run
from oracle.domain.events.jsonl import event_to_json
from tests.support.histories import History, make_node_address

DOCUMENTATION = Path(__file__).resolve().parents[4] / "docs" / "how-to" / "backtest.md"
GPU = '<script src="http://evil.example/x.js">\u202e'


def write_history(history, path):
    path.write_text("".join(f"{event_to_json(event)}\n" for event in history.events))
    return path


@pytest.fixture
def file(tmp_path):
    history = History().joins("A", "B", "C", stake=10**18, gpu_vram=24, gpu_name=GPU)
    history.scores("A", 10, 0, 0).after(60).scores("B", 10).after(1800).scores("C", 2)
    return write_history(history.after(9).joins("D"), tmp_path / "events.jsonl")


def backtest(*arguments):
    """Run in this process, except where a test is about several processes."""
    jobs = () if "--jobs" in arguments else ("--jobs", "1")
    return run(["backtest", *(str(argument) for argument in (*arguments, *jobs))])


def run_json(capsys, *arguments):
    assert backtest(*arguments, "--json") == 0
    return json.loads(capsys.readouterr().out)


def run_rejected(capsys, *arguments):
    """Return the single line on stderr; stdout is empty, and the exit code is 2."""
    assert backtest(*arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("qos-oracle: ")
    assert captured.err.count("\n") == 1
    return captured.err


def test_systems_are_compared_on_event_file_without_configuration(capsys, file):
    answer = run_json(capsys, "--events", file, "--rules", "crynux", "--rules", "relay")
    assert [system["name"] for system in answer["systems"]] == ["crynux", "relay"]
    assert answer["rank_correlation"]["crynux"]["crynux"] == "1.000000000000000000"
    (new,) = (
        node_row for node_row in answer["nodes"] if node_row["node"] == make_node_address("D")
    )
    assert new["final_ranks"]["crynux"] == {"score": "0.500000000000000000", "rank": 2}
    assert (
        sum(node_row["tasks"] for node_row in answer["nodes"])
        == answer["history"]["tasks_started"]
    )


@pytest.mark.parametrize("name", ["history", "systems", "nodes"])
def test_every_json_key_is_documented(capsys, file, name):
    rows = run_json(capsys, "--events", file, "--rules", "crynux")[name]
    row = rows if name == "history" else rows[0]
    key = name if name == "history" else f"{name}[]"
    lines = DOCUMENTATION.read_text("utf-8").splitlines()
    (documented_row,) = (line for line in lines if line.startswith(f"| `{key}` |"))
    assert set(row) <= set(re.findall(r"`(\w+)`", documented_row))


def test_dash_argument_reads_events_from_stdin(capsys, file, monkeypatch):
    answer = run_json(capsys, "--events", file, "--rules", "crynux")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(file.read_bytes())))
    assert run_json(capsys, "--events", "-", "--rules", "crynux") == answer


def test_event_file_order_does_not_change_comparison(capsys, file, tmp_path):
    lines = file.read_text().splitlines(keepends=True)
    reversed_file = tmp_path / "other.jsonl"
    reversed_file.write_text("".join(reversed(lines)))
    bounds = ("--rules", "crynux", "--to", 5)
    assert run_json(capsys, "--events", reversed_file, *bounds) == run_json(
        capsys, "--events", file, *bounds
    )


def test_malformed_line_after_the_last_block_is_reported(capsys, file):
    file.write_text(file.read_text() + "{\n")
    message = run_rejected(capsys, "--events", file, "--rules", "crynux", "--to", 5)
    assert f"{file}: line " in message
    assert "invalid JSON" in message


def test_table_lists_every_node_within_100_columns(capsys, file):
    names = ("crynux", "relay", "crynux@relay", "relay@crynux")
    assert backtest("--events", file, *(part for name in names for part in ("--rules", name))) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    for name in "ABCD":
        assert make_node_address(name) in captured.out
    assert max(map(len, captured.out.splitlines())) <= 100


def test_long_system_names_are_replaced_by_numbers_with_legend(capsys, file):
    names = ["crynux", "relay", *(f"crynux tau_seconds={tau} penalty=0.05" for tau in (900, 901))]
    assert backtest("--events", file, *(part for name in names for part in ("--rules", name))) == 0
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 100
    assert any(
        line.split() == ["node", "crynux", "relay", "system", "3", "system", "4"]
        for line in out.splitlines()
    )
    # Before the scores, the shares and the intervals.
    for number, tau in (("3", 900), ("4", 901)):
        assert out.count(f"\nsystem {number}: crynux tau_seconds={tau} penalty=0.05\n") == 3


def test_grid_that_is_too_large_for_the_table_prints_only_totals(capsys, file, tmp_path):
    grid = tmp_path / "grid.toml"
    grid.write_text('rules = "crynux"\nset.tau_seconds = [300, 600, 900, 1200, 1500]\n')
    assert backtest("--events", file, "--grid", grid) == 0
    out = capsys.readouterr().out
    assert "crynux tau_seconds=1500" in out
    assert "Too many systems" in out
    assert max(map(len, out.splitlines())) <= 100


@pytest.mark.slow
def test_number_of_jobs_does_not_change_the_output(capsys, file, tmp_path, monkeypatch):
    monkeypatch.setattr(worker_pool, "MIN_PARALLEL_EVENTS", 0)
    page = tmp_path / "page.html"
    outputs = []
    for jobs in ("1", "2"):
        rules = ("--rules", "crynux", "--rules", "relay", "--set", "penalty=0.05")
        assert backtest("--events", file, *rules, "--jobs", jobs, "--html", page, "--json") == 0
        outputs.append((capsys.readouterr().out, page.read_bytes()))
    assert outputs[0] == outputs[1]


def test_rule_set_can_be_read_from_a_file(capsys, file, tmp_path):
    rules_file = tmp_path / "ours.json"
    rules_file.write_text('{"name": "ours", "version": 1, "penalty": "0.01"}')
    (system,) = run_json(capsys, "--events", file, "--rules", rules_file)["systems"]
    assert (system["name"], system["policy"], system["rules"]["penalty"]) == (
        "ours", "crynux", "0.01",
    )  # fmt: skip
    assert system["exclusion"]["intervals"] > 0


def test_system_can_be_compared_with_changed_copy_of_itself(capsys, file):
    floored = "crynux  weight_floor=0.5 boost=1"
    answer = run_json(capsys, "--events", file, "--rules", "crynux", "--rules", floored)
    bare, changed_system = answer["systems"]
    assert (bare["name"], changed_system["name"]) == ("crynux", "crynux weight_floor=0.5 boost=1")
    assert (bare["parameters"]["weight_floor"], changed_system["parameters"]["weight_floor"]) == (
        "0.01",
        "0.5",
    )
    assert changed_system["changes"] == {"weight_floor": "0.5", "boost": "1"}
    assert changed_system["rules"]["boost"] == "1"


def test_rules_file_can_be_combined_with_changes(capsys, file, tmp_path):
    for name in ("ours.json", "our own.json"):
        rules_file = tmp_path / name
        rules_file.write_text('{"name": "ours", "version": 1}')
        (plain,) = run_json(capsys, "--events", file, "--rules", rules_file)["systems"]
        (system,) = run_json(capsys, "--events", file, "--rules", f"{rules_file} boost=1")[
            "systems"
        ]
        assert (plain["name"], system["name"]) == ("ours", "ours boost=1")


def test_change_that_does_not_apply_to_a_system_is_noted(capsys, file):
    legacy = (
        "legacy.vram_weight=1", "legacy.timeout_weight=0", "legacy.speed_weight=0",
        "legacy.least_timeout_seconds=1", "legacy.kickout_below=0", "legacy.kickout_tasks=1",
    )  # fmt: skip
    sets = [part for text in legacy for part in ("--set", f"legacy:{text}")]
    rules = ("--rules", "crynux", "--rules", "legacy", "--set", "legacy.window_seconds=60")
    assert backtest("--events", file, *rules, *sets, "--json") == 0
    captured = capsys.readouterr()
    assert captured.err == (
        "note: crynux has no rule legacy.window_seconds: it is compared without that change\n"
    )
    assert json.loads(captured.out)["notes"] == [captured.err.removeprefix("note: ").rstrip()]


class Page(HTMLParser):
    """The page as a browser sees it: text, tags, and everything that could load a resource."""

    def __init__(self, text):
        super().__init__()
        self.open = []
        self.words = []
        self.tags = set()
        self.loads = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.loads += [value for key, value in attrs if key in {"src", "href", "xlink:href"}]
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)


@pytest.fixture
def page(file, tmp_path, capsys):
    path = tmp_path / "page.html"
    rules = ("--rules", "crynux", "--rules", "relay", "--set", "penalty=0.05")
    assert backtest("--events", file, *rules, "--html", path) == 0
    assert capsys.readouterr().err == f"wrote {path}\n"
    return path.read_text(encoding="utf-8")


def test_html_page_is_well_formed_and_shows_every_node(page):
    parsed_page = Page(page)
    assert parsed_page.open == []
    text = "".join(parsed_page.words)
    for name in "ABCD":
        assert make_node_address(name) in text
    assert {"svg", "rect", "polyline", "circle", "table"} <= parsed_page.tags


def test_html_page_loads_no_external_resources(page):
    parsed_page = Page(page)
    assert parsed_page.loads == []
    assert not {"script", "link", "img", "iframe", "object", "image"} & parsed_page.tags
    assert "url(" not in page
    assert "@import" not in page


def test_untrusted_text_is_escaped_in_html_page(page):
    assert "&lt;script src=&#34;http://evil.example/x.js&#34;&gt;\\u202e" in page
    assert "\u202e" not in page


def test_existing_page_is_replaced_without_temporary_files(file, tmp_path):
    path = tmp_path / "pages" / "page.html"
    path.parent.mkdir()
    path.write_text("old")
    assert backtest("--events", file, "--rules", "crynux", "--html", path) == 0
    assert path.read_text().startswith("<!DOCTYPE html>")
    assert [entry.name for entry in path.parent.iterdir()] == ["page.html"]


def test_failed_comparison_leaves_the_page_unchanged(capsys, file, tmp_path):
    path = tmp_path / "pages" / "page.html"
    path.parent.mkdir()
    path.write_text("old")
    run_rejected(capsys, "--events", file, "--rules", "crynux", "--from", "10000", "--html", path)
    assert path.read_text() == "old"
    assert [entry.name for entry in path.parent.iterdir()] == ["page.html"]


def test_block_range_limits_the_events_that_are_counted(capsys, file):
    full_history = run_json(capsys, "--events", file, "--rules", "crynux")["history"]
    partial_history = run_json(
        capsys, "--events", file, "--rules", "crynux", "--from", 3, "--to", 5
    )["history"]
    assert (partial_history["first_block"], partial_history["last_block"]) == (3, 5)
    assert 0 < partial_history["events"] < full_history["events"]
    assert partial_history["events_before"] > 0


@pytest.mark.parametrize(
    ("arguments", "expected_error"),
    [
        ([], "no system to compare is given"),
        (["--rules", "fair"], "unknown rule set 'fair'"),
        (["--rules", "crynux@fair"], "unknown policy 'fair'"),
        (["--rules", "crynux", "--rules", "crynux"], "given twice"),
        (["--rules", "crynux", "--set", "fairness=1"], "fairness: no such rule in crynux"),
        (["--rules", "crynux luck=1"], "--rules: luck: no such rule in crynux"),
        (["--rules", "boost=1"], "unknown rule set 'boost=1'"),
        (["--rules", "crynux", "--set", "penalty"], "must be key=value"),
        (["--rules", "crynux", "--set", "penalty=much"], "penalty: "),
        (["--rules", "crynux", "--from", "10000"], "no event from this block on"),
        (["--rules", "crynux", "--to", "0"], "no event up to this block"),
        (["--rules", "crynux", "--grid", "no/such/file"], "no/such/file: cannot be read"),
        (["--rules", "crynux", "--html", "no/such/folder/page.html"], "cannot be written"),
        (["--rules", "crynux", "--html", "."], "the path is a folder"),
        (["--rules", "crynux", "--jobs", "0"], "--jobs"),
        (["--rules", "crynux", "--draws", "-1"], "--draws"),
    ],
)
def test_invalid_backtest_input_fails_with_one_line_error(capsys, file, arguments, expected_error):
    assert expected_error in run_rejected(capsys, "--events", file, *arguments)


def test_empty_or_missing_file_is_rejected(capsys, tmp_path):
    empty = tmp_path / "empty.jsonl"
    empty.write_text("")
    assert "empty" in run_rejected(capsys, "--events", empty, "--rules", "crynux")
    missing = tmp_path / "missing.jsonl"
    assert "No such file" in run_rejected(capsys, "--events", missing, "--rules", "crynux")


def test_error_for_invalid_grid_names_its_file(capsys, file, tmp_path):
    grid = tmp_path / "grid.json"
    grid.write_text('{"rules": "crynux"}')
    assert f"--grid: {grid}: set: must list" in run_rejected(
        capsys, "--events", file, "--grid", grid
    )


@pytest.mark.evm
def test_stored_logs_and_their_export_give_the_same_comparison(capsys, indexed_config, tmp_path):
    assert run(["export", "--config", str(indexed_config)]) == 0
    exported = tmp_path / "exported.jsonl"
    exported.write_text(capsys.readouterr().out)
    from_file = run_json(capsys, "--events", exported, "--rules", "crynux")
    assert run_json(capsys, "--config", indexed_config, "--rules", "crynux") == from_file
