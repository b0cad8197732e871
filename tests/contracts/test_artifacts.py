"""abi/ contains exactly the compiled sources of contracts/."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.support.evm.artifacts import ABI, load_artifact

ROOT = ABI.parent
CODE_LIMIT = 24_576  # EIP-170
LAYOUT = ROOT / "tests" / "contracts" / "roots" / "layout.json"
NAMES = sorted(str(path.relative_to(ABI).with_suffix("")) for path in ABI.glob("**/*.json"))


def build(root: Path, *args: str) -> subprocess.CompletedProcess[str]:
    node = shutil.which("node") or str(ROOT / ".venv" / "bin" / "node")
    command = [node, str(root / "contracts" / "build.mjs"), *args]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """Create a checkout with one interface as its only contract."""
    (tmp_path / "contracts").mkdir()
    (tmp_path / "abi").mkdir()
    for name in ("package.json", "contracts/build.mjs", "contracts/IKickTarget.sol"):
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "node_modules").symlink_to(ROOT / "node_modules")
    return tmp_path


# ./check compares them before it runs the quick suite. The compiler takes a minute of processor
# time, and several minutes on a busy machine.
@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.timeout(1800)
def test_fresh_compilation_equals_committed_artifacts():
    checked = build(ROOT, "--check")
    assert checked.returncode == 0, checked.stdout + checked.stderr


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.timeout(900)
def test_build_check_reports_missing_stale_or_orphaned_artifact(copy: Path):
    missing = build(copy, "--check")
    # The timelock's source is in OpenZeppelin's package, not among the copied sources.
    expected_lines = [
        f"abi/{name}.json is missing" for name in ("IKickTarget", "TimelockController")
    ]
    assert (missing.returncode, missing.stdout.splitlines()) == (1, expected_lines)

    assert build(copy).returncode == 0
    assert build(copy, "--check").returncode == 0
    written = copy / "abi" / "IKickTarget.json"
    written.write_text(written.read_text("utf-8").replace("0.8.37", "0.8.36"), "utf-8")
    assert "is stale" in build(copy, "--check").stdout

    (copy / "contracts" / "IKickTarget.sol").unlink()
    assert "has no source" in build(copy, "--check").stdout
    assert build(copy).returncode == 0
    assert not written.exists()


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.timeout(900)
def test_oracle_storage_layout_matches_recorded_layout():
    """`node contracts/build.mjs --layout QoSRoots` prints it again.

    Tools that read or write a slot by number depend on it, and so does the single slot that a
    push reads.
    """
    printed = build(ROOT, "--layout", "QoSRoots")
    assert printed.returncode == 0, printed.stderr
    assert json.loads(printed.stdout) == json.loads(LAYOUT.read_text("utf-8"))


@pytest.mark.parametrize(
    ("name", "bits"),
    [
        ("RoundHead.Head", 224),
        ("Limits", 144),
        ("KickoutLimits.KickLimits", 136),
        ("KickoutsByProof.NodeKick", 240),
    ],
)
def test_packed_struct_fits_in_one_storage_slot(name: str, bits: int):
    structs = json.loads(LAYOUT.read_text("utf-8"))["structs"]
    (fields,) = (
        held
        for struct, held in structs.items()
        if struct.startswith(f"t_struct({name.rsplit('.', maxsplit=1)[-1]})")
    )
    assert {slot for _, slot, _, _ in fields} == {"0"}
    label, _, offset, kind = fields[-1]
    assert 8 * offset + int("".join(filter(str.isdigit, kind)) or 8) == bits, label


@pytest.mark.slow
def test_compilation_error_leaves_artifacts_unchanged(copy: Path):
    (copy / "contracts" / "Broken.sol").write_text("contract Broken {", "utf-8")
    broken = build(copy)
    assert broken.returncode == 1
    assert "Broken.sol" in broken.stderr
    assert list((copy / "abi").iterdir()) == []


@pytest.mark.slow
def test_unknown_contract_name_is_rejected(copy: Path):
    refused = build(copy, "Nowhere")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "no contract Nowhere" in refused.stderr


@pytest.mark.slow
@pytest.mark.parametrize("flag", ["--layout", "--standard-json"])
def test_layout_flag_requires_a_contract_name(flag: str):
    refused = build(ROOT, flag)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert f"{flag}: needs the name of one contract" in refused.stderr


@pytest.mark.parametrize("name", NAMES)
def test_artifact_has_expected_name_settings_and_code_size(name: str):
    compiled = load_artifact(name)
    assert compiled["contractName"] == name.rsplit("/", maxsplit=1)[-1]
    assert compiled["settings"]["evmVersion"] == "shanghai"
    assert len(compiled["deployedBytecode"]) // 2 - 1 <= CODE_LIMIT
    assert str(ROOT) not in json.dumps(compiled)


def test_every_event_indexes_its_node_or_task():
    def first(event: dict[str, Any]) -> tuple[str, bool]:
        return event["inputs"][0]["name"], event["inputs"][0]["indexed"]

    events = {p["name"]: p for p in load_artifact("TaskNetwork")["abi"] if p["type"] == "event"}
    for name, event in events.items():
        subject = {"Task": "task", "Node": "node", "Mode": "node", "Grou": "group"}.get(name[:4])
        assert subject is None or first(event) == (subject, True)
        nodes = [
            parameter["indexed"] for parameter in event["inputs"] if parameter["name"] == "node"
        ]
        assert all(nodes)
