"""Exit codes for a supervisor: 1 for faults that may pass, 2 only if an operator must act.

Every command that queries an endpoint gets every kind of invalid response, and never ends with 2.
"""

import sqlite3
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from oracle.cli.main import run
from tests.integration.cli.reading.test_command_line import COMMANDS
from tests.support.cli.local_network import LocalNetwork, Settings, run_local_network, write_config
from tests.support.sending import faults
from tests.support.sending.proxy import EVERY, Proxy, run_proxy

pytestmark = [pytest.mark.evm, pytest.mark.slow]

NOBODY = "0x" + "9" * 40
Capture = pytest.CaptureFixture[str]
CALL, CODE = "eth_call", "eth_getCode"
# By command: the arguments with which it queries an endpoint.
ENDPOINT_COMMANDS = {
    "config check": [],
    "contract check": ["--dev"],
    "contract deploy": ["--dev", "--admin", "0x" + "ad" * 20, "--dry-run"],
    "contract calldata": ["resume"],
    "contract show": [],
    "endpoint probe": [],
    "kickout accuse": ["{node}", "--dry-run"],
    "kickout allow": ["{node}"],
    "kickout clear": ["{node}", "--dry-run"],
    "kickout execute": ["{node}", "--dry-run"],
    "kickout veto": ["{node}"],
    "outbox rebuild": ["--from-chain", "--dry-run"],
    "report push": ["--dry-run"],
    "report signers": [],
    "report verify": ["1"],
    "resync backfill": ["--from", "0", "--to", "20"],
    "resync gaps": [],
    "resync rewind": ["--to-block", "10"],
    "resync verify": ["--from", "0", "--to", "20"],
    "run": ["--once"],
    "selftest": [],
    "status": [],
}
# They query none, or a separate one; or they need an entry of the outbox first.
OFFLINE_COMMANDS = {
    *("attack", "audit relay", "backtest", "demo", "devnet", "draws", "endpoint readmit"),
    *("advice", "explain", "export", "gateway"),
    *("feed accept", "feed export-witness", "feed faults", "feed import-witness"),
    *("audit relay", "gateway", "init", "keys create", "keys show"),
    *(
        "mcp",
        "notify list",
        "notify test",
        "serve",
        "service backup",
        "service init",
        "service restore",
        "service upgrade",
        "subscription end",
        "subscription list",
    ),
    *(
        "kickout evidence",
        "kickout export",
        "kickout list",
        "objection answer",
        "objection list",
        "objection show",
        "objection sign",
        "halt clear",
        "halt list",
        "migrate",
        "nodes",
    ),
    *("outbox bump", "outbox cancel", "outbox hold", "outbox list", "outbox release"),
    *("outbox show", "proof", "queue", "replay", "report diff", "report release"),
    *("report show",),
    *("resync dead-letters list", "resync dead-letters retry", "resync rebuild", "resync refusal"),
    "rules preview",
    *("rules announce", "rules history", "rules list", "rules show", "select"),
}
# Invalid responses of an endpoint.
ENDPOINT_FAULTS = {
    # Longer than the timeout of `run --once`.
    "throttled": (EVERY, faults.return_status(429, retry_after=3600)),
    "refused": (EVERY, faults.return_status(401)),
    "unavailable": (EVERY, faults.return_status(503)),
    "not JSON": (EVERY, faults.return_web_page()),
    "dropped": (EVERY, faults.drop_request()),
    "null": (EVERY, faults.return_null()),
    "error": (EVERY, faults.return_error("internal error")),
    "null for a call": (CALL, faults.return_null()),
    "nothing for a call": (CALL, faults.respond_with("0x")),
    "null for code": (CODE, faults.return_null()),
}


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalNetwork]:
    """Yield a chain of this module, whose transmitter never sends,
    so that all tests start alike.
    """
    with run_local_network(tmp_path_factory.mktemp("keys")) as started:
        started.play(6)
        yield started


@pytest.fixture
def endpoint_proxy(network: LocalNetwork) -> Iterator[Proxy]:
    with run_proxy(network.url) as opened:
        yield opened


@pytest.fixture
def honest(network: LocalNetwork, settings: Settings, tmp_path: Path) -> Path:
    """Return a configuration that queries the chain itself."""
    return at(settings, tmp_path, network.url)


def at(settings: Settings, folder: Path, *urls: str) -> Path:
    settings["chain"]["endpoints"] = list(urls)
    return write_config(settings, folder / "config.toml")


def in_ci(names: Iterable[str], *chosen: str) -> list[Any]:
    """Mark the combinations for CI and the night, because each takes ten seconds."""
    return [
        name if name in chosen else pytest.param(name, marks=pytest.mark.nightly) for name in names
    ]


def run_with_config(config: Path, *command: str) -> int:
    return run([*command, "--config", str(config)])


def test_every_command_is_listed_as_using_an_endpoint_or_not():
    assert set(ENDPOINT_COMMANDS) | OFFLINE_COMMANDS == set(COMMANDS)
    assert not set(ENDPOINT_COMMANDS) & OFFLINE_COMMANDS


@pytest.mark.parametrize("fault", in_ci(ENDPOINT_FAULTS, "null", "unavailable"))
def test_run_without_an_endpoint_fails_with_the_same_error_each_time(
    endpoint_proxy: Proxy, settings: Settings, tmp_path: Path, capsys: Capture, fault: str
):
    path = at(settings, tmp_path, endpoint_proxy.url)
    codes = list[int]()
    messages = list[str]()
    for _ in range(2):
        endpoint_proxy.rule(*ENDPOINT_FAULTS[fault])
        codes.append(run_with_config(path, "run", "--once", "--publish"))
        messages.append(capsys.readouterr().err.splitlines()[-1])
        endpoint_proxy.heal()
        assert run_with_config(path, "run", "--once") == 0
    assert codes == [1, 1], messages
    if ENDPOINT_FAULTS[fault][0] == EVERY:
        assert messages[0] == messages[1]


@pytest.mark.parametrize(
    "name", in_ci(sorted(ENDPOINT_COMMANDS), "contract check", "kickout accuse")
)
def test_faulty_endpoint_does_not_cause_exit_code_2(
    endpoint_proxy: Proxy, settings: Settings, tmp_path: Path, capsys: Capture, name: str
):
    path = at(settings, tmp_path, endpoint_proxy.url)
    assert run_with_config(path, "run", "--once") == 0
    with sqlite3.connect(tmp_path / "oracle.sqlite") as database:
        (node,) = database.execute("SELECT hex(address) FROM node LIMIT 1").fetchone()
    database.close()
    arguments = [part.format(node=f"0x{node.lower()}") for part in ENDPOINT_COMMANDS[name]]
    without = run_with_config(path, *name.split(), *arguments)
    for fault in ("throttled", "refused", "not JSON", "null", "error"):
        endpoint_proxy.rule(*ENDPOINT_FAULTS[fault])
        capsys.readouterr()
        endpoint_proxy.forget()
        code = run_with_config(path, *name.split(), *arguments)
        stderr = capsys.readouterr().err
        endpoint_proxy.heal()
        # The exit code of `status` is the health: without an endpoint there is no progress.
        allowed = {0, 1, 2} if name == "status" else {0, 1}
        # An endpoint that was not queried is not the reason.
        assert code in allowed or (code == without and not endpoint_proxy.received_requests), (
            fault,
            stderr,
        )


@pytest.mark.parametrize("fault", ["null for a call", "null for code", "nothing for a call"])
def test_empty_code_from_one_endpoint_at_startup_is_not_trusted(
    endpoint_proxy: Proxy, network: LocalNetwork, settings: Settings, tmp_path: Path, fault: str
):
    endpoint_proxy.rule(*ENDPOINT_FAULTS[fault])
    path = at(settings, tmp_path, endpoint_proxy.url, network.url)
    assert run_with_config(path, "run", "--once") == 0
    assert run_with_config(path, "contract", "check", "--dev") == 0


def test_contract_is_missing_only_if_every_endpoint_returns_no_code(
    endpoint_proxy: Proxy, network: LocalNetwork, settings: Settings, tmp_path: Path
):
    settings["network"]["contracts"]["TaskNetwork"] = NOBODY
    assert run_with_config(at(settings, tmp_path, network.url), "run", "--once") == 2
    path = at(settings, tmp_path, endpoint_proxy.url, network.url)
    assert run_with_config(path, "run", "--once") == 2
    endpoint_proxy.rule(EVERY, faults.return_status(503))
    assert run_with_config(path, "run", "--once") == 1


def test_indexed_contract_that_lost_its_code_exits_with_1(
    endpoint_proxy: Proxy, honest: Path, settings: Settings, tmp_path: Path
):
    assert run_with_config(honest, "run", "--once") == 0
    endpoint_proxy.rule(CODE, faults.respond_with("0x"))
    assert run_with_config(at(settings, tmp_path, endpoint_proxy.url), "run", "--once") == 1
