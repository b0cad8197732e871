"""`status`, `nodes` and `explain` for a network with a history."""

import json
import re
from decimal import Decimal
from math import exp

import pytest

from oracle.cli.main import run
from oracle.signing.key_locations import KeyFiles
from oracle.signing.keystore import create_keystore
from tests.support.cli.local_network import write_config

pytestmark = pytest.mark.evm


def run_json(capsys, *arguments):
    """Return the JSON that a command prints."""
    # No daemon works, which `status` calls for attention.
    assert run([*map(str, arguments), "--json"]) == (arguments[0] == "status")
    return json.loads(capsys.readouterr().out)


def run_and_read_output(capsys, *arguments):
    assert run([*map(str, arguments)]) == (arguments[0] == "status")
    return capsys.readouterr().out


@pytest.mark.main_path
def test_status_reports_indexed_block_and_nodes(indexed_config, capsys):
    status = run_json(capsys, "status", "--config", indexed_config)

    assert status["chain_id"] == 31337
    assert status["folded"]["number"] >= 50
    assert sum(status["nodes"].values()) == 12
    assert status["lease"] is None


def test_status_of_empty_database_suggests_run(config, capsys):
    assert run(["migrate", "--config", str(config)]) == 0
    assert "qos-oracle run" in run_and_read_output(capsys, "status", "--config", config)


def test_nodes_are_sorted_by_descending_score(indexed_config, capsys):
    nodes = run_json(capsys, "nodes", "--config", indexed_config)["nodes"]

    assert len(nodes) == 12
    scores = [Decimal(node["qos"]) for node in nodes]
    assert scores == sorted(scores, reverse=True)
    assert scores[0] > scores[-1]


def test_nodes_table_shows_one_full_address_per_line(indexed_config, capsys):
    lines = run_and_read_output(capsys, "nodes", "--config", indexed_config).splitlines()

    assert len(lines) == 13
    assert all(re.search(r"0x[0-9a-f]{40} ", line) for line in lines[1:])


def test_explained_components_add_up_to_the_score(indexed_config, capsys):
    for node in run_json(capsys, "nodes", "--config", indexed_config)["nodes"]:
        explanation = run_json(capsys, "explain", node["node"], "--config", indexed_config)
        entries = explanation["pool"]["entries"]

        assert [entry["score"] for entry in entries] == explanation["pool"]["scores"]
        long_term = Decimal(sum(explanation["pool"]["scores"])) / (10 * len(entries))
        assert abs(long_term - Decimal(explanation["row"]["long_term"])) < Decimal("1e-17")
        assert explanation["row"] == node
        qos = Decimal(node["qos"])
        assert node["lane"] in {1, int(qos * 10_000) + 2}


def test_every_explained_entry_names_its_transaction_and_log(indexed_config, network, capsys):
    best = run_json(capsys, "nodes", "--config", indexed_config)["nodes"][0]["node"]
    explanation = run_json(capsys, "explain", best, "--config", indexed_config)

    for entry in [*explanation["pool"]["entries"], *explanation["reliability"]["changes"]]:
        receipt = network.stage.chain.make_request(
            "eth_getTransactionReceipt", entry["transaction"]
        )
        assert int(receipt["blockNumber"], 16) == entry["block"]
        assert hex(entry["log"]) in {log["logIndex"] for log in receipt["logs"]}


def test_explanation_at_an_earlier_block_excludes_later_entries(indexed_config, capsys):
    best = run_json(capsys, "nodes", "--config", indexed_config)["nodes"][0]["node"]
    now = run_json(capsys, "explain", best, "--config", indexed_config)
    block = now["pool"]["entries"][2]["block"]

    then = run_json(capsys, "explain", best, "--at", block, "--config", indexed_config)

    assert then["as_of"]["number"] == block
    assert then["pool"]["entries"] == [
        entry for entry in now["pool"]["entries"] if entry["block"] <= block
    ]
    assert len(then["pool"]["scores"]) < len(now["pool"]["scores"])


def test_text_output_contains_the_numbers_of_the_json_output(indexed_config, capsys):
    worst = run_json(capsys, "nodes", "--config", indexed_config)["nodes"][-1]["node"]
    explanation = run_json(capsys, "explain", worst, "--config", indexed_config)
    text = run_and_read_output(capsys, "explain", worst, "--full", "--config", indexed_config)

    assert explanation["row"]["long_term"] in text
    assert explanation["row"]["reliability"] in text
    assert all(entry["transaction"] in text for entry in explanation["pool"]["entries"])


def test_explanation_starts_with_the_score_and_sorts_its_losses(indexed_config, capsys):
    worst = run_json(capsys, "nodes", "--config", indexed_config)["nodes"][-1]
    first, *other_lines = run_and_read_output(
        capsys, "explain", worst["node"][:12], "--config", indexed_config
    ).splitlines()
    assert first.startswith(worst["qos"][:4])
    assert first.endswith(".")
    assert any("12th of 12 nodes." in line for line in other_lines)
    costs = [float(line.split()[0]) for line in other_lines if re.match(r" *-\d", line)]
    assert costs == sorted(costs)
    # Each value is rounded down separately.
    assert abs(float(worst["qos"]) - sum(costs) - 1) < 0.01 * (len(costs) + 1)
    assert any(worst["node"] in line for line in other_lines)


def test_ambiguous_node_prefix_exits_with_2_and_lists_matches(indexed_config, capsys):
    nodes = [
        node["node"] for node in run_json(capsys, "nodes", "--config", indexed_config)["nodes"]
    ]
    shared = next(
        node[:3]
        for node in nodes
        if sum(other_node.startswith(node[:3]) for other_node in nodes) > 1
    )
    assert run(["explain", shared, "--config", str(indexed_config)]) == 2
    stderr = capsys.readouterr().err
    assert "ambiguous node prefix; " in stderr
    assert all(node in stderr for node in nodes if node.startswith(shared))


def test_advice_text_contains_the_numbers_of_the_json_output(indexed_config, capsys):
    for row in run_json(capsys, "nodes", "--config", indexed_config)["nodes"]:
        advice = run_json(capsys, "advice", row["node"], "--config", indexed_config)
        text = run_and_read_output(capsys, "advice", row["node"], "--config", indexed_config)
        what_if = advice["what_if"]
        if row["state"] == "selectable":
            assert what_if["rows"][0]["qos"] == row["qos"]
            assert what_if["rows"][0]["rank"] == row["place"]
        for changed in [] if what_if is None else what_if["rows"]:
            mean, qos = (changed[name] for name in ("mean_score", "qos"))
            assert f"{mean[: mean.index('.') + 3]}  {qos[:4]}" in text
        assert text.count(" tokens") >= len(advice["money"]["losses"])
        assert advice["money"]["assumption"] in text or not advice["money"]["losses"]
        assert f"as of block {advice['as_of']['block']}, " in text


def test_advice_for_unknown_node_exits_with_2(indexed_config, capsys):
    assert run(["advice", "0x" + "ab" * 20, "--config", str(indexed_config)]) == 2
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.slow
def test_entry_lists_the_group_members_it_was_compared_with(indexed_config, capsys):
    member_count = 0
    for node in run_json(capsys, "nodes", "--config", indexed_config)["nodes"]:
        explanation = run_json(capsys, "explain", node["node"], "--config", indexed_config)
        text = run_and_read_output(
            capsys, "explain", node["node"], "--full", "--config", indexed_config
        )
        for entry in explanation["pool"]["entries"]:
            group = [entry, *entry["others"]]
            assert len({member["task"] for member in group}) == 3
            ranked = sorted(
                (member["rank"], member["elapsed"]) for member in group if member["rank"]
            )
            assert [rank for rank, _ in ranked] == [*range(1, len(ranked) + 1)]
            assert ranked == sorted(ranked, key=lambda place: place[1])
            times = ", ".join(f"{elapsed} s" for _, elapsed in ranked)
            place = f"rank {entry['rank']} of " if entry["rank"] else "the others: "
            assert f"  #{entry['seq']} score {entry['score']} (" in text
            assert f"{place}{times}) at block {entry['block']}" in text
            other_nodes = {member["node"] for member in entry["others"]}
            assert node["node"] not in other_nodes
            member_count += len(other_nodes)
    assert member_count > 0


def test_displayed_recovery_can_be_recomputed(indexed_config, capsys):
    healing = re.compile(
        r"recovered in (\d+) s: 1 - \(1 - ([\d.]+)\) x exp\(-(\d+) / 1800\) = (.+)"
    )
    recoveries = []
    for node in run_json(capsys, "nodes", "--config", indexed_config)["nodes"]:
        recoveries += healing.findall(
            run_and_read_output(
                capsys, "explain", node["node"], "--full", "--config", indexed_config
            )
        )

    assert recoveries
    for seconds, base, again, result in recoveries:
        assert seconds == again
        healed = 1 - (1 - float(base)) * exp(-int(seconds) / 1800)
        assert abs(healed - float(result)) < 1e-12


def test_timeout_shows_its_penalty_factor(indexed_config, capsys):
    text = "".join(
        run_and_read_output(capsys, "explain", node["node"], "--full", "--config", indexed_config)
        for node in run_json(capsys, "nodes", "--config", indexed_config)["nodes"]
    )
    cuts = re.findall(r"([\d.]+) -> ([\d.]+) timed out at block \d+ \(x 0\.3\)", text)
    assert cuts
    assert all(abs(float(before) * 0.3 - float(after)) < 1e-12 for before, after in cuts)


def test_config_check_summarises_a_valid_configuration(config, capsys):
    report = run_json(capsys, "config", "check", "--config", config)

    assert report["faults"] == []
    settings = {"profile", "contracts", "rules", "rules hash", "database", "keys"}
    chain_facts = {"chain", "contract", "cost"}
    assert set(report["facts"]) == {*settings, *chain_facts, "on chain"}
    assert "135 s" in report["facts"]["rules"]


def test_config_check_of_default_configuration_has_no_warnings(config, indexed_config, capsys):
    report = run_json(capsys, "config", "check", "--config", config)
    assert report["warnings"] == []
    assert (
        run_json(capsys, "config", "check", "--offline", "--config", indexed_config)["warnings"]
        == []
    )


def test_config_check_warns_of_period_longer_than_any_exclusion(settings, tmp_path, capsys):
    settings["oracle"] |= {"period_seconds": 600}
    path = write_config(settings, tmp_path / "config.toml")

    run(["config", "check", "--json", "--config", str(path)])
    warnings = json.loads(capsys.readouterr().out)["warnings"]
    assert len([warning for warning in warnings if "135 s" in warning]) == 1


def test_config_check_warns_of_transmitter_without_funds(settings, tmp_path, capsys):
    files = KeyFiles(tmp_path / "poor.json", tmp_path / "poor.password")
    poor = create_keystore(*files, iterations=1_000)
    settings["keys"] |= {
        "transmitter_keystore": str(files.keystore),
        "transmitter_password_file": str(files.password_file),
    }
    path = write_config(settings, tmp_path / "config.toml")

    report = run_json(capsys, "config", "check", "--config", path)
    assert f"the transmitter {poor} has no ether: nothing can be sent" in report["warnings"]
