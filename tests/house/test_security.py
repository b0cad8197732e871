"""Every point of docs/explanation/security.md has a test or a person; ops/ is as it says."""

import json
import re
from pathlib import Path
from typing import cast

import pytest

from oracle.bindings.qos_oracle import execute_call, propose_call, push_call
from oracle.daemon.daemon_health import DaemonHealth
from oracle.daemon.scheduler import JobLiveness
from oracle.daemon.web.health_app import health_app
from oracle.daemon.web.statements_app import statements_app
from oracle.quorum.board import Board
from oracle.signing.factory import VOID_STATEMENT
from oracle.signing.typed_data import Domain, KickStatement, typed
from oracle.store.database import Store

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docs" / "explanation" / "security.md").read_text("utf-8")
_CHECKLIST = TEXT.split("## Checklist")[1]
POINTS = [
    tuple(cell.strip() for cell in line.strip("|").split("|"))
    for line in _CHECKLIST.splitlines()
    if line.startswith("| ") and not line.startswith("| point")
]
_TEST = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")


@pytest.mark.parametrize(("point", "seen_to"), POINTS)
def test_every_point_has_a_test_or_a_person(point: str, seen_to: str):
    named = _TEST.findall(seen_to)
    assert named or re.search(r"\*[^*]+\*", seen_to), point
    for path, test in named:
        assert f"def {test}(" in (ROOT / path).read_text("utf-8"), f"{path}::{test}"


def test_the_unit_leaves_nothing_open_that_it_need_not():
    uow = (ROOT / "ops/systemd/qos-oracle.service").read_text("utf-8").splitlines()
    wanted = {
        *("User=qos-oracle", "LimitCORE=0", "NoNewPrivileges=yes", "ProtectSystem=strict"),
        "LimitNOFILE=65536",
        *("CapabilityBoundingSet=", "UMask=0077", "IPAddressDeny=any", "PrivateTmp=yes"),
        # 2 needs a person.
        "RestartPreventExitStatus=2",
    }
    assert wanted <= set(uow)
    # Of another process systemd does not ask which exit code forbids to start again.
    assert not [line for line in uow if line.startswith("ExecStartPre")]


def test_what_is_secret_stays_out_of_the_image():
    kept_out = set((ROOT / ".dockerignore").read_text("utf-8").splitlines())
    assert {".env", "keys", "config/local.toml"} <= kept_out


def test_nothing_is_written_over_http():
    health = health_app(DaemonHealth(JobLiveness(lambda: 0.0)), lambda: cast("Store", None))
    routes = [*health.routes, *statements_app(Board()).routes]
    ways = [way for route in routes for way in getattr(route, "methods", ())]
    assert "GET" in ways
    assert set(ways) <= {"GET", "HEAD"}


def policy(name: str):
    return json.loads((ROOT / "ops/signer" / name).read_text("utf-8"))


def test_the_transmitters_policy_names_the_functions_that_it_calls():
    kick = KickStatement(0, VOID_STATEMENT.prev, 0, VOID_STATEMENT.prev, 0)
    called = {
        "push": push_call(VOID_STATEMENT, b""),
        "proposeKick": propose_call(kick, b""),
        "executeKick": execute_call(0),
    }
    told = policy("transmitter-policy.json")["transaction"]
    named = {each["name"]: each["selector"] for each in told["functions"]}
    assert {name: calldata[:10] for name, calldata in called.items()}.items() <= named.items()
    assert (named.keys() - called.keys(), told["value"]) == ({"cancelKick"}, "0x0")


def test_the_signers_policy_names_the_domain_and_the_types_that_it_signs():
    told = policy("signer-policy.json")["typedData"]
    contract = told["domain"]["verifyingContract"]
    whole = typed(VOID_STATEMENT, Domain(told["domain"]["chainId"], contract))
    assert told["domain"] == whole["domain"]
    assert whole["primaryType"] in told["primaryTypes"]


def test_the_kms_policy_lets_the_daemon_ask_whose_key_it_is():
    """AWS knows the algorithm and the kind of message of `Sign` and `Verify` alone.

    Where a condition names them, another act has none of them and is not allowed.
    """
    told = policy("kms-key-policy.json")["Statement"]
    bound = {"kms:SigningAlgorithm", "kms:MessageType"}
    acts: dict[str, set[str]] = {}
    for each in told:
        for act in each["Action"]:
            acts[act] = set(each["Condition"].get("StringEquals", {}))
    assert acts["kms:Sign"] >= {*bound, "aws:SourceVpce"}
    assert acts["kms:GetPublicKey"] == {"aws:SourceVpce"}
