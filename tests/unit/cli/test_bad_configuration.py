"""All mistakes in a configuration or a file are reported at once, each in one line."""

import sys

import pytest

from oracle.cli.main import run
from tests.support.cli.local_network import write_config
from tests.support.cli.refusal import run_refused_command


def test_missing_configuration_file_is_rejected(capsys, tmp_path):
    line = run_refused_command(capsys, "status", "--config", tmp_path / "missing.toml")
    assert "missing.toml: configuration not found" in line


def test_configuration_that_is_not_toml_is_rejected(capsys, tmp_path):
    (tmp_path / "bad.toml").write_text("[chain\nid = 1")
    assert "invalid TOML" in run_refused_command(
        capsys, "status", "--config", tmp_path / "bad.toml"
    )


def test_configuration_that_is_not_utf8_is_rejected(capsys, tmp_path):
    (tmp_path / "bad.toml").write_bytes(b"\xff\xfe\x00")
    assert "not UTF-8 text" in run_refused_command(
        capsys, "status", "--config", tmp_path / "bad.toml"
    )


def test_deeply_nested_configuration_is_rejected(capsys, tmp_path):
    (tmp_path / "bad.toml").write_text("a = " + 5000 * "[")
    assert "too deeply nested" in run_refused_command(
        capsys, "status", "--config", tmp_path / "bad.toml"
    )


@pytest.mark.parametrize("setting", ["id", "start_block"])
def test_number_too_large_for_the_database_column_is_rejected(
    capsys, offline_settings, tmp_path, setting
):
    offline_settings["chain"][setting] = 2**63
    path = write_config(offline_settings, tmp_path / "config.toml")
    assert f"chain.{setting}: " in run_refused_command(capsys, "status", "--config", path)


@pytest.mark.parametrize(
    ("section", "setting"),
    [("chain", "finality_depth"), ("oracle", "min_change"), ("chain", "poll_seconds")],
)
def test_boolean_instead_of_a_number_is_rejected(
    capsys, offline_settings, tmp_path, section, setting
):
    offline_settings.setdefault(section, {})[setting] = True
    path = write_config(offline_settings, tmp_path / "config.toml")
    line = run_refused_command(capsys, "status", "--config", path)
    assert f"{section}.{setting}: expected a number, not true or false" in line


def test_unknown_key_is_named_in_the_error(capsys, offline_settings, tmp_path):
    offline_settings["chain"]["finality"] = 5
    path = write_config(offline_settings, tmp_path / "config.toml")
    assert "chain.finality: unknown setting" in run_refused_command(
        capsys, "status", "--config", path
    )


def test_all_configuration_faults_are_reported_together(
    capsys, offline_settings, tmp_path, monkeypatch
):
    offline_settings["chain"] |= {
        "id": 0,
        "endpoints": ["ftp://here"],
        "foo": 1,
        "finality_depth": 10**7,
    }
    offline_settings["network"]["contracts"] = {"TaskNetwork": "0x12"}
    offline_settings["bar"] = {"x": 1}
    monkeypatch.setenv("QOS_ORACLE_CHIAN__ID", "1")
    monkeypatch.setenv("QOS_ORACLE_WEB__PORT", "70000")
    path = write_config(offline_settings, tmp_path / "config.toml")

    error_output = run_refused_command(capsys, "config", "check", "--config", path)

    for fault in (
        "chain.id",
        "chain.endpoints.0",
        "chain.foo",
        "chain.finality_depth",
        "network.contracts.TaskNetwork",
        "bar",
        "QOS_ORACLE_CHIAN__ID",
        "web.port",
    ):
        assert f"\n  {fault}: " in error_output
    assert "Value error" not in error_output
    assert "None" not in error_output


def test_repeated_endpoint_is_rejected_without_its_url(capsys, offline_settings, tmp_path):
    offline_settings["chain"]["endpoints"] = [
        "http://LOCALHOST:8545/KEY",
        "http://127.1:8545/KEY/",
    ]
    path = write_config(offline_settings, tmp_path / "config.toml")

    error_output = run_refused_command(capsys, "config", "check", "--config", path)

    assert "endpoints: entries 1 and 2 are the same address; remove one" in error_output
    assert "KEY" not in error_output


@pytest.mark.parametrize("command", ["demo", "devnet"])
@pytest.mark.parametrize("port", [-1, 65_536])
def test_out_of_range_port_is_rejected(capsys, command, port):
    assert "'--port': Input should be" in run_refused_command(capsys, command, "--port", port)


def test_conflicting_settings_are_rejected(capsys, offline_settings, tmp_path):
    offline_settings["oracle"] = {"publish": True, "level": "safe", "anchor_window": 20}
    offline_settings["oracle"]["timelock"] = "0x" + "7" * 40
    offline_settings["keys"] = {"signer_keystore": "signer.json"}
    path = write_config(offline_settings, tmp_path / "config.toml")

    error_output = run_refused_command(capsys, "run", "--config", path)

    assert "oracle.publish: requires oracle.address" in error_output
    assert "oracle.timelock: requires oracle.address" in error_output
    assert (
        "keys.signer_keystore and keys.signer_password_file: set both or neither" in error_output
    )
    assert "oracle.anchor_window: 20 blocks are too few" in error_output


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["a", "a"], "shadow.name: a is the name of 2 sets; names must be unique"),
        (["a", "b", "c", "d", "e"], "shadow: Tuple should have at most 4 items"),
    ],
)
def test_faulty_shadow_sets_are_rejected(capsys, offline_settings, tmp_path, names, message):
    path = write_config(offline_settings, tmp_path / "config.toml")
    sections = [f'[[shadow]]\nname = "{name}"\nrules = "missing.json"\n' for name in names]
    path.write_text(path.read_text("utf-8") + "".join(sections), "utf-8")

    assert message in run_refused_command(capsys, "rules", "history", "--config", path)


def test_unknown_rule_set_error_lists_available_sets(capsys, offline_settings, tmp_path):
    offline_settings["rules"] = {"set": "sead"}
    path = write_config(offline_settings, tmp_path / "config.toml")
    assert "crynux" in run_refused_command(capsys, "nodes", "--config", path)


@pytest.mark.parametrize(
    ("rules", "complaint"),
    [
        ({"change": {"speed": 1}}, "rules.change: speed: no such rule (available: close, "),
        ({"change": {"tau_seconds": "0.5"}}, "rules.change: tau_seconds: must be a whole number"),
        ({"change": {"penalty": 0.3}}, "rules.change: penalty: write a fraction in quotes"),
        ({"change": 7}, "rules.change: must be a table"),
        ({"change": {"penalty": "2"}}, "rules.change: penalty: must be above 0, at most 1"),
        ({"close": "terminal", "change": {"close": "terminal"}}, "rules.close and rules.change"),
        ({"set": "legacy"}, "rules.change: legacy.vram_weight, legacy.timeout_weight, "),
        (
            {"set": "legacy", "change": {"legacy": {"vram_weight": "2"}}},
            "legacy.timeout_weight, legacy.speed_weight, ",
        ),
    ],
)
def test_error_for_invalid_rule_change_names_the_setting(
    capsys, offline_settings, tmp_path, rules, complaint
):
    offline_settings["rules"] = rules
    path = write_config(offline_settings, tmp_path / "config.toml")
    assert complaint in run_refused_command(capsys, "nodes", "--config", path)


@pytest.mark.parametrize(
    ("expected_error", "complaint"),
    [
        (("web", {"certificate": "x.pem"}), "web.certificate and web.certificate_key: set both"),
        (
            ("statements", {"client_ca_file": "x.pem"}),
            "requires statements.certificate",
        ),
        (("statements", {"port": 8080}), "web.port and statements.port: same port"),
        (
            ("reporters", {"certificate_key": "x.key"}),
            "reporters.certificate_key: set both",
        ),
        (("web", {"max_connections": 1}), "web.max_connections: Input should be"),
        (("web", {"header_timeout_seconds": 0}), "web.header_timeout_seconds: Input should be"),
    ],
)
def test_invalid_listener_setting_is_named_in_the_error(
    capsys, offline_settings, tmp_path, expected_error, complaint
):
    section, changed = expected_error
    offline_settings["web"] = {"port": 8080}
    offline_settings[section] = offline_settings.get(section, {}) | changed
    assert complaint in run_refused_command(
        capsys, "status", "--config", write_config(offline_settings, tmp_path / "config.toml")
    )


def test_configured_peers_without_a_statements_port_cause_a_warning(
    capsys, offline_settings, tmp_path
):
    offline_settings["reporters"] = {"peers": ["https://b.example"]}
    path = write_config(offline_settings, tmp_path / "config.toml")
    run(["config", "check", "--offline", "--config", str(path)])
    assert "statements.port: missing" in capsys.readouterr().out


def test_rule_can_be_changed_by_environment_variable(
    capsys, offline_settings, tmp_path, monkeypatch
):
    monkeypatch.setenv("QOS_ORACLE_RULES__CHANGE", '{"tau_seconds": 0}')
    path = write_config(offline_settings, tmp_path / "config.toml")
    line = run_refused_command(capsys, "nodes", "--config", path)
    assert "rules.change: tau_seconds: must be 1 or more" in line


def test_invalid_option_choice_is_rejected(capsys):
    line = run_refused_command(capsys, "outbox", "list", "--state", "foo")
    assert "Invalid value for '--state': 'foo' is not one of 'planned'" in line


def test_unknown_option_is_rejected(capsys):
    line = run_refused_command(capsys, "status", "--jsn")
    assert "No such option" in line
    assert "(see `qos-oracle status --help`)" in line


def test_secrets_in_urls_are_not_printed(capsys, offline_settings, tmp_path):
    offline_settings["chain"]["endpoints"] = ["https://user:pass@host:port/v3/APIKEY"]
    offline_settings["database"]["url"] = "postgresql://me:hunter2@127.0.0.1:1/oracle"
    path = write_config(offline_settings, tmp_path / "config.toml")

    # An unreachable database may recover, so a supervisor may try again.
    first = run_refused_command(capsys, "status", "--config", path, code=1)
    offline_settings["chain"]["endpoints"] = ["https://host/v3/APIKEY"]
    second = run_refused_command(
        capsys, "status", "--config", write_config(offline_settings, path), code=1
    )

    assert "APIKEY" not in first + second
    assert "pass@" not in first
    assert "hunter2" not in second


def test_deeply_nested_events_file_is_rejected(capsys, tmp_path):
    (tmp_path / "events.jsonl").write_text("[" * 1_000_000)
    assert "line 1: invalid JSON" in run_refused_command(
        capsys, "replay", tmp_path / "events.jsonl"
    )


def test_empty_events_file_is_rejected(capsys, tmp_path):
    (tmp_path / "events.jsonl").write_text("")
    assert "events.jsonl" in run_refused_command(capsys, "replay", tmp_path / "events.jsonl")


def test_truncated_events_file_is_rejected(capsys, tmp_path):
    (tmp_path / "events.jsonl").write_text('{"type": "node_joined", "blo')
    assert "line 1: invalid JSON" in run_refused_command(
        capsys, "replay", tmp_path / "events.jsonl"
    )


def test_recursion_limit_raised_by_library_is_restored(capsys):
    # py_ecc raises the limit when it is imported.
    sys.setrecursionlimit(100_000)
    assert run(["--version"]) == 0
    assert sys.getrecursionlimit() == 1_000


STAKES = {"NodeStaking": "0x" + "0a" * 20}


@pytest.mark.parametrize(
    ("profile", "is_warned"),
    [
        pytest.param({"profile": "crynux-staking", "contracts": STAKES}, True, id="only stakes"),
        pytest.param({}, False, id="groups that are compared"),
    ],
)
def test_legacy_rules_without_scored_tasks_cause_a_warning(
    capsys, offline_settings, tmp_path, profile, is_warned
):
    chosen = {
        "vram_weight": "0.2",
        "timeout_weight": "0.2",
        "speed_weight": "0.6",
        "least_timeout_seconds": 60,
        "kickout_below": "4",
        "kickout_tasks": 10,
    }
    offline_settings["rules"] = {"set": "legacy", "change": {"legacy": chosen}}
    offline_settings["network"] |= profile
    path = write_config(offline_settings, tmp_path / "config.toml")
    run(["config", "check", "--offline", "--config", str(path)])
    assert ("no node would ever get a score" in capsys.readouterr().out) is is_warned
