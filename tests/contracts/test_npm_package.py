"""Consumers install the contracts from npm, and compile against them."""

import json
import re
import shutil
from pathlib import Path

import pytest

from tests.contracts.consumer_project import HERE, compile_files, install_package

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = sorted(path.stem for path in (ROOT / "contracts" / "roots" / "consumers").glob("*.sol"))
IN_PACKAGE = Path("node_modules", "@qos-oracle", "contracts")

# The compiler is several times slower on a busy machine.
pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("consumer")
    install_package(folder)
    for name in ("Consumer.sol", "RootConsumer.sol"):
        shutil.copy(HERE / name, folder)
    return folder


@pytest.mark.slow
def test_consumer_project_compiles_against_package(project: Path):
    compiled = compile_files(project, "Consumer.sol")

    assert {"Consumer", "IQoSOracle", "IKickTarget"} <= set(compiled.split())


@pytest.mark.slow
def test_proof_consumer_compiles_against_the_package(project: Path):
    compiled = compile_files(project, "RootConsumer.sol")

    assert {"RootConsumer", "IQoSRoots", "QoSProof"} <= set(compiled.split())


@pytest.mark.slow
@pytest.mark.parametrize("name", EXAMPLES)
def test_packaged_examples_equal_tested_examples(project: Path, name: str):
    """The artifacts that tests/contracts/roots deploys have the bytecode of the package."""
    built = ROOT / "abi" / "roots" / "consumers" / f"{name}.json"
    source = f"@qos-oracle/contracts/roots/consumers/{name}.sol"

    bytecode = compile_files(project, "--bytecode", source, str(built)).strip()

    assert bytecode == json.loads(built.read_text("utf-8"))["bytecode"]


@pytest.mark.slow
def test_documented_example_compiles_against_the_package(project: Path):
    page = (ROOT / "docs" / "how-to" / "use-the-scores.md").read_text("utf-8")
    # The other examples are functions of contracts in the package.
    source, *_ = re.findall(r"^```solidity\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    (project / "Marketplace.sol").write_text(f"pragma solidity ^0.8.20;\n{source}", "utf-8")

    compiled = compile_files(project, "Marketplace.sol")

    assert "Marketplace" in compiled.split()


@pytest.mark.slow
def test_package_contains_all_contracts_except_test_contracts(project: Path):
    package = project / IN_PACKAGE
    inside = {str(path.relative_to(package)) for path in package.rglob("*.sol")}
    sources = ROOT / "contracts"
    source_names = {str(path.relative_to(sources)) for path in sources.rglob("*.sol")}

    assert inside == {name for name in source_names if not name.startswith("testing/")}


@pytest.mark.slow
def test_package_contains_descriptors(project: Path):
    source = ROOT / "contracts" / "descriptors"
    packed = project / IN_PACKAGE / "descriptors"

    assert {path.name: path.read_bytes() for path in packed.iterdir()} == {
        path.name: path.read_bytes() for path in source.iterdir()
    }


@pytest.mark.slow
@pytest.mark.nightly
def test_contracts_compile_from_installed_package(project: Path):
    name = "@qos-oracle/contracts/roots/QoSRoots.sol"

    assert "QoSRoots" in compile_files(project, name)
