"""With `--json`, stdout contains exactly one JSON document, and everything else goes to stderr.

This includes log lines: here a line is logged before each output of every command. A command that
fails may print no document, and gives the reason in one line.
"""

import json
import shutil
import sqlite3
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog
import typer

from oracle.cli.main import run
from tests.integration.cli.reading.test_command_line import COMMANDS
from tests.support.cli.local_network import LocalNetwork, run_local_network, write_config
from tests.support.cli.task_files import write_task

ADMIN = "0x" + "ad" * 20
LOGGED = "logged_meanwhile"
Capture = pytest.CaptureFixture[str]
# The arguments by command; {node}, {intent} and {folder} are those of the network and the test.
CALLED = {
    "advice": ["{node}"],
    "backtest": [],
    "config check": [],
    "contract check": ["--dev"],
    "contract deploy": ["--dev", "--admin", ADMIN, "--dry-run"],
    "contract calldata": ["resume"],
    "contract show": [],
    "draws": [],
    "endpoint probe": [],
    "endpoint readmit": ["127.0.0.1"],
    "explain": ["{node}"],
    "export": ["--fixture", "{folder}/recorded.jsonl"],
    "feed accept": [],
    "feed export-witness": ["{folder}/times.jsonl"],
    "feed faults": [],
    "feed import-witness": ["{folder}/no-such-file.jsonl"],
    "keys create": ["{folder}/made.json", "{folder}/made.password"],
    "keys show": [],
    "kickout accuse": ["{node}", "--dry-run"],
    "kickout allow": ["{node}"],
    "kickout clear": ["{node}", "--dry-run"],
    "kickout execute": ["{node}", "--dry-run"],
    "kickout export": [],
    "kickout list": [],
    "objection answer": ["{node}", "--decline", "--reason", "a test"],
    "objection list": [],
    "objection show": ["{node}"],
    "objection sign": [
        *("--keystore", "{folder}/no.json", "--password-file", "{folder}/no.txt"),
        *("--due-since", "1"),
    ],
    "kickout veto": ["{node}"],
    "halt clear": ["--reason", "a test"],
    "halt list": [],
    "migrate": [],
    "nodes": [],
    "notify list": [],
    "notify test": [],
    "proof": ["{node}"],
    "outbox rebuild": ["--from-chain", "--dry-run"],
    "outbox bump": ["{intent}"],
    "outbox cancel": ["{intent}", "--yes"],
    "outbox hold": ["{sender}"],
    "outbox list": [],
    "outbox release": ["{sender}"],
    "outbox show": ["{intent}"],
    "queue": [],
    "report diff": ["0", "--with", "http://127.0.0.1:9"],
    "report push": ["--dry-run"],
    "report release": [],
    "report show": [],
    "report signers": [],
    "report verify": ["1"],
    "resync backfill": ["--from", "0", "--to", "5"],
    "resync dead-letters list": [],
    "resync dead-letters retry": [],
    "resync gaps": [],
    "resync rebuild": [],
    "resync refusal": [],
    "resync rewind": ["--to-block", "30"],
    "resync verify": ["--from", "0", "--to", "5"],
    "rules announce": ["{folder}/no-such-file.json", "--reason", "a test"],
    "rules history": [],
    "rules list": [],
    "rules preview": [],
    "rules show": ["crynux"],
    "run": ["--once"],
    "select": ["--task", "{task}"],
    "selftest": [],
    "service backup": ["{folder}/backup"],
    "service init": ["{folder}/service"],
    "service restore": ["{folder}/no-such-file", "--yes"],
    "service upgrade": ["{folder}/backup", "--yes"],
    "status": [],
    "subscription end": ["3f0c", "--reason", "a test"],
    "subscription list": [],
}
# They run a complete network; tests/integration/demo covers their output.
BY_ITSELF = {"attack", "audit relay", "demo", "devnet"}
# Records that a healthy network does not have, by command; the command reports this with exit
# code 2.
NOTHING_TO_DO = {
    *("kickout accuse", "kickout allow", "kickout clear", "kickout execute", "kickout veto"),
    "halt clear",
    *("objection answer", "objection sign"),
}
NOTHING_TO_DO |= {"rules announce", "service restore", "subscription end"}
NOTHING_TO_DO |= {"endpoint readmit", "outbox bump", "outbox cancel", "queue"}
NOTHING_TO_DO |= {"feed accept", "feed import-witness", "notify test"}
NOTHING_TO_DO |= {"report diff", "report release", "resync rewind", "backtest", "outbox release"}


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalNetwork]:
    with run_local_network(tmp_path_factory.mktemp("keys")) as started:
        started.play(3)
        yield started


@pytest.fixture(scope="module")
def published(network: LocalNetwork, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a configuration whose first round has landed; each test uses a copy."""
    folder = tmp_path_factory.mktemp("published")
    path = write_config(network.settings(folder), folder / "config.toml")
    assert run(["run", "--once", "--publish", "--config", str(path)]) == 0
    network.mine(1)
    assert run(["run", "--once", "--config", str(path)]) == 0
    return path


@pytest.fixture
def copied(published: Path, tmp_path: Path) -> Path:
    shutil.copytree(published.parent, tmp_path, dirs_exist_ok=True)
    path = tmp_path / "config.toml"
    config_text = path.read_text("utf-8").replace(str(published.parent), str(tmp_path))
    path.write_text(config_text, "utf-8")
    return path


@pytest.fixture(autouse=True)
def logging_while_it_prints(monkeypatch: pytest.MonkeyPatch) -> None:
    """Log a line before each output; stdout must not contain it."""
    printed = typer.echo

    def echo(message: object = None, *, err: bool = False, nl: bool = True) -> None:
        if not err:
            structlog.get_logger().warning(LOGGED)
        printed(message, err=err, nl=nl)

    monkeypatch.setattr(typer, "echo", echo)


def build_command_line(name: str, path: Path) -> list[str]:
    facts = {"folder": str(path.parent), "node": ADMIN, "intent": "1", "sender": ADMIN}
    facts["task"] = str(write_task(path.parent, min_vram=1))
    if (path.parent / "oracle.sqlite").exists():
        with sqlite3.connect(path.parent / "oracle.sqlite") as database:
            (node,) = database.execute("SELECT hex(address) FROM node LIMIT 1").fetchone()
            (intent,) = database.execute("SELECT id FROM pub_intent LIMIT 1").fetchone()
        database.close()
        named = tomllib.loads(path.read_text("utf-8"))["keys"]["transmitter_keystore"]
        facts["sender"] = "0x" + json.loads(Path(named).read_text("utf-8"))["address"][-40:]
        facts |= {"node": f"0x{node.lower()}", "intent": str(intent)}
    arguments = [*name.split(), *(part.format(**facts) for part in CALLED[name]), "--json"]
    takes_config = any("--config" in parameter.opts for parameter in COMMANDS[name].params)
    return [*arguments, *(["--config", str(path)] if takes_config else [])]


def test_every_command_with_a_json_option_is_tested():
    answering = {
        name
        for name, command in COMMANDS.items()
        if any("--json" in parameter.opts for parameter in command.params)
    }
    assert answering == CALLED.keys() | BY_ITSELF


def test_command_without_configuration_logs_to_stderr(capsys: Capture):
    for name in ("status", "run", "rules list"):
        assert run([*name.split(), "--help"]) == 0, name
        capsys.readouterr()
        structlog.get_logger().warning(LOGGED)
        written = capsys.readouterr()
        assert (LOGGED in written.err, written.out) == (True, ""), name


@pytest.mark.parametrize("name", sorted(CALLED))
def test_command_without_configuration_prints_max_one_json_document(
    tmp_path: Path, capsys: Capture, name: str
):
    code = run(build_command_line(name, tmp_path / "config.toml"))
    written = capsys.readouterr()
    if code == 0:
        json.loads(written.out)
    else:
        assert (code, written.out) == (2, "")
        assert written.err.startswith("qos-oracle: ")


@pytest.mark.evm
@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(CALLED))
def test_command_prints_one_json_document(copied: Path, capsys: Capture, name: str):
    capsys.readouterr()
    code = run(build_command_line(name, copied))
    written = capsys.readouterr()
    # No report is due for a while.
    code = 2 if (code, name) == (1, "report push") else code
    if code == 2 and name in {*NOTHING_TO_DO, "report push"} and not written.out:
        assert written.err.startswith("qos-oracle: ")
        return
    # No daemon works, which `status` calls for attention.
    assert code == (name == "status"), written.err
    json.loads(written.out)


@pytest.mark.evm
@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(CALLED))
def test_offline_command_prints_at_most_one_json_document(
    copied: Path, capsys: Capture, name: str
):
    """Some commands need no endpoint; some print what is known, and fail nevertheless."""
    config_text = copied.read_text("utf-8")
    here = next(line for line in config_text.splitlines() if line.startswith("endpoints = "))
    copied.write_text(config_text.replace(here, 'endpoints = ["http://127.0.0.1:9"]'), "utf-8")
    capsys.readouterr()
    code = run(build_command_line(name, copied))
    written = capsys.readouterr()
    if code == 0 or written.out:
        json.loads(written.out)
    if code != 0:
        assert written.out or written.err.startswith("qos-oracle: ")


@pytest.mark.evm
@pytest.mark.slow
def test_deployment_prints_one_json_document(network: LocalNetwork, copied: Path, capsys: Capture):
    # It waits for its block.
    network.stage.chain.make_request("evm_setAutomine", True)
    arguments = ["contract", "deploy", "--dev", "--admin", ADMIN, "--yes", "--json"]
    capsys.readouterr()
    assert run([*arguments, "--config", str(copied)]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["arguments"]["admin"] == ADMIN
    assert answer["address"].startswith("0x")
    assert answer["gas_used"] <= answer["gas_limit"]
