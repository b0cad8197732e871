"""The standard JSON input of a contract compiles to its deployed code, as for a block explorer."""

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.contracts.roots.roots_driver import deploy_roots
from tests.contracts.roots.words_driver import deploy_words
from tests.support.evm.artifacts import load_artifact
from tests.support.evm.chain import Chain

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).parent
NIGHTLY = pytest.mark.nightly

# The compiler takes a minute of processor time, and several minutes on a busy machine.
pytestmark = pytest.mark.timeout(900)


def run_node(*arguments: str) -> str:
    node = shutil.which("node") or str(ROOT / ".venv" / "bin" / "node")
    command = [node, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def compile_standard_json(name: str, folder: Path) -> dict[str, Any]:
    """Return the result of compiling only the sources in the input."""
    path = folder / f"{name}.json"
    path.write_text(run_node(str(ROOT / "contracts" / "build.mjs"), "--standard-json", name))
    output = json.loads(run_node(str(HERE / "compile_input.mjs"), str(path)))
    assert [error for error in output.get("errors", ()) if error["severity"] == "error"] == []
    (contracts,) = (made for made in output["contracts"].values() if name in made)
    return dict(contracts[name]["evm"])


def deploy_contract(chain: Chain, name: str) -> str:
    """Deploy a contract, with any valid arguments, and return its address."""
    accounts = chain.accounts
    deployers: dict[str, Callable[[], Any]] = {
        "QoSRoots": lambda: deploy_roots(chain).contract,
        "QoSWords": lambda: deploy_words(deploy_roots(chain)).contract,
        "QoSChallenge": lambda: chain.deploy(
            "roots/QoSChallenge", deploy_roots(chain).contract.address, 10
        ),
        "Objections": lambda: chain.deploy("roots/Objections", accounts[0]),
        "TimelockController": lambda: chain.deploy(
            "TimelockController", 60, [accounts[0]], [accounts[1]], accounts[2]
        ),
    }
    return str(deployers[name]().address)


def clear_immutables(code: bytes, references: dict[str, list[dict[str, int]]]) -> bytes:
    """Return the code with zeros where the constructor wrote immutables, as solc prints it."""
    cleared = bytearray(code)
    for places in references.values():
        for place in places:
            start = place["start"]
            length = place["length"]
            cleared[start : start + length] = bytes(length)
    return bytes(cleared)


@pytest.mark.slow
@pytest.mark.evm
@pytest.mark.parametrize(
    "name",
    [
        "QoSChallenge",
        *(
            pytest.param(name, marks=NIGHTLY)
            for name in ("Objections", "QoSRoots", "QoSWords", "TimelockController")
        ),
    ],
)
def test_standard_json_compiles_to_the_deployed_code(chain: Chain, tmp_path: Path, name: str):
    compiled = compile_standard_json(name, tmp_path)["deployedBytecode"]
    chain.mine(3)

    deployed = chain.rpc("eth_getCode", deploy_contract(chain, name), "latest")

    code = clear_immutables(bytes.fromhex(deployed[2:]), compiled["immutableReferences"])
    assert code.hex() == compiled["object"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "adapters/NodeAdapter",
        *(pytest.param(name, marks=NIGHTLY) for name in ("roots/QoSRoots", "TaskNetwork")),
    ],
)
def test_standard_json_compiles_to_the_artifact(tmp_path: Path, name: str):
    compiled = compile_standard_json(name.rsplit("/", maxsplit=1)[-1], tmp_path)

    assert f"0x{compiled['bytecode']['object']}" == load_artifact(name)["bytecode"]
