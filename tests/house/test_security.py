"""Every item of docs/explanation/security.md has a test or a person;
ops/ is as described there.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import cast

from oracle.bindings.qos_roots import (
    encode_accuse_call,
    encode_clear_accusation_call,
    encode_execute_kick_call,
    encode_push_report_call,
    encode_retry_kick_call,
)
from oracle.daemon.daemon_health import DaemonHealth
from oracle.daemon.scheduler import JobLiveness
from oracle.daemon.web.health_app import create_health_app
from oracle.daemon.web.statements_app import create_statements_app
from oracle.domain.ids import ZERO_ADDRESS
from oracle.domain.roots.leaves import LeafFlag, NodeLeaf, RoundSummary
from oracle.quorum.wire_format import Board
from oracle.signing.factory import VOID_STATEMENT
from oracle.signing.typed_data import Domain, build_typed_data
from oracle.store.database import Store

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    ROOT / "docs" / "explanation" / "security.md",
    ROOT / "docs" / "explanation" / "contract-threats.md",
    ROOT / "docs" / "reference" / "contract-invariants.md",
    ROOT / "docs" / "reference" / "security-checklist.md",
    ROOT / "docs" / "how-to" / "release.md",
]
_TEST = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")
_PROOF = re.compile(r"`(\w+Check)\.(check_\w+)`")
# An invariant that the fuzzer of the contracts evaluates after each call.
_INVARIANT = re.compile(r"`(tests/contracts/fuzz/[\w/]+\.py)::(check_\w+)`")
_CHECKED = re.compile(r"`contract check`: `([^`]+)`")
_TARGET = re.compile(r"`make ([\w-]+)")
_DUTY = re.compile(r"(?<!\*)\*[^*]+\*(?!\*)")
# The text of `contract check` about its comparisons.
_CHECKS = "\n".join(
    path.read_text("utf-8") for path in sorted((ROOT / "oracle" / "bindings").rglob("*.py"))
)
_TARGETS = (ROOT / "Makefile").read_text("utf-8")


def points(page: Path) -> Iterator[tuple[str, str]]:
    """Yield each item with its test or person, from every table with a column for it."""
    is_asked = False
    for line in page.read_text("utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if not line.startswith("|"):
            is_asked = False
        elif cells[-1].strip(" |") == "verified by":
            is_asked = True
        elif is_asked and not line.startswith("|--"):
            yield f"{page.stem}: {cells[0]}", cells[-1]


def test_every_security_point_has_a_test_a_check_or_an_operator_duty():
    for point, seen_to in [row for page in PAGES for row in points(page)]:
        tests = _TEST.findall(seen_to)
        proofs = _PROOF.findall(seen_to)
        checks = _CHECKED.findall(seen_to)
        targets = _TARGET.findall(seen_to)
        invariants = _INVARIANT.findall(seen_to)
        assert tests or proofs or invariants or checks or targets or _DUTY.search(seen_to), point
        for path, test in tests:
            assert f"def {test}(" in (ROOT / path).read_text("utf-8"), f"{path}::{test}"
        for contract, check in proofs:
            source = ROOT / f"tests/contracts/audit/checks/{contract}.sol"
            assert f"function {check}(" in source.read_text("utf-8"), check
        assert all(name in _list_invariants(path) for path, name in invariants), point
        assert [check for check in checks if f'"{check}' not in _CHECKS] == [], point
        assert [target for target in targets if f"\n{target}:" not in _TARGETS] == [], point


def _list_invariants(path: str) -> list[str]:
    """Return the invariants that a module both defines and lists for evaluation."""
    source = (ROOT / path).read_text("utf-8")
    defined = re.findall(r"^def (check_\w+)\(moment: Moment, \w+: History\)", source, re.MULTILINE)
    return [name for name in defined if f"        {name},\n" in source]


def test_every_roots_contract_invariant_is_documented():
    table = (ROOT / "docs/reference/contract-invariants.md").read_text("utf-8")
    folder = ROOT / "tests/contracts"
    modules = ["invariants.py", "module_invariants.py"]
    invariants = {
        (f"tests/contracts/fuzz/roots/{module}", name)
        for module in modules
        for name in _list_invariants(f"tests/contracts/fuzz/roots/{module}")
    }
    proofs = {
        (path.stem, name)
        for pattern in ("Roots*Check.sol", "PackedLanesCheck.sol")
        for path in (folder / "audit/checks").glob(pattern)
        for name in re.findall(r"function (check_(?!refuted_)\w+)\(", path.read_text("utf-8"))
    }
    assert min(len(invariants), len(proofs)) >= 15
    assert invariants - {*_INVARIANT.findall(table)} == set()
    assert proofs - {*_PROOF.findall(table)} == set()


def test_security_pages_list_at_least_nine_points():
    assert all(len([*points(page)]) >= 9 for page in PAGES)


def test_systemd_unit_has_hardening_options():
    uow = (ROOT / "ops/systemd/qos-oracle.service").read_text("utf-8").splitlines()
    required_lines = {
        *("User=qos-oracle", "LimitCORE=0", "NoNewPrivileges=yes", "ProtectSystem=strict"),
        "LimitNOFILE=65536",
        *("CapabilityBoundingSet=", "UMask=0077", "IPAddressDeny=any", "PrivateTmp=yes"),
        *("MemoryDenyWriteExecute=yes", "PrivateMounts=yes", "PrivateIPC=yes"),
        "StateDirectoryMode=0700",
        *("DevicePolicy=closed", "NoExecPaths=/var/lib/qos-oracle /tmp /var/tmp -/dev/shm"),
        # Exit code 2 needs an operator.
        "RestartPreventExitStatus=2",
    }
    assert required_lines <= set(uow)
    # systemd applies RestartPreventExitStatus only to the main process.
    assert not [line for line in uow if line.startswith("ExecStartPre")]


def test_secret_files_are_excluded_from_image():
    kept_out = set((ROOT / ".dockerignore").read_text("utf-8").splitlines())
    assert {".env", "keys", "config/local.toml"} <= kept_out


def test_http_routes_are_read_only():
    health = create_health_app(DaemonHealth(JobLiveness(lambda: 0.0)), lambda: cast("Store", None))
    routes = [*health.routes, *create_statements_app(Board()).routes]
    methods = [method for route in routes for method in getattr(route, "methods", ())]
    assert "GET" in methods
    assert set(methods) <= {"GET", "HEAD"}


def policy(name: str):
    return json.loads((ROOT / "ops/signer" / name).read_text("utf-8"))


def test_transmitter_policy_allows_every_function_of_daemon():
    leaf = NodeLeaf(ZERO_ADDRESS, ZERO_ADDRESS, 1, LeafFlag(0), 0, 0, 0, 0, 0, 0, bytes(32))
    summary = RoundSummary(1, ZERO_ADDRESS, 0, 0, 0, 0, 0)
    called = {
        "push": encode_push_report_call(VOID_STATEMENT, 0, b""),
        "accuse": encode_accuse_call(leaf, ()),
        "executeKick": encode_execute_kick_call(leaf, (), summary),
        "retryKick": encode_retry_kick_call(ZERO_ADDRESS),
        "clear": encode_clear_accusation_call(leaf, ()),
    }
    transaction_policy = policy("transmitter-policy.json")["transaction"]
    named = {
        function["name"]: function["selector"] for function in transaction_policy["functions"]
    }
    assert {name: calldata[:10] for name, calldata in called.items()} == named
    assert transaction_policy["value"] == "0x0"


def test_signer_policy_contains_domain_and_signed_types():
    typed_data_policy = policy("signer-policy.json")["typedData"]
    contract = typed_data_policy["domain"]["verifyingContract"]
    typed_data = build_typed_data(
        VOID_STATEMENT, Domain(typed_data_policy["domain"]["chainId"], contract)
    )
    assert typed_data_policy["domain"] == typed_data["domain"]
    assert typed_data_policy["primaryTypes"] == [typed_data["primaryType"]]


def test_kms_policy_allows_get_public_key():
    """AWS evaluates the algorithm and the message type only for `Sign` and `Verify`.

    With a condition on them, another action lacks both values and is not allowed.
    """
    statements = policy("kms-key-policy.json")["Statement"]
    bound = {"kms:SigningAlgorithm", "kms:MessageType"}
    acts: dict[str, set[str]] = {}
    for statement in statements:
        for act in statement["Action"]:
            acts[act] = set(statement["Condition"].get("StringEquals", {}))
    assert acts["kms:Sign"] >= {*bound, "aws:SourceVpce"}
    assert acts["kms:GetPublicKey"] == {"aws:SourceVpce"}
