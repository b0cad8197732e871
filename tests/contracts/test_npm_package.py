"""Who consumes the contracts installs them from npm, and compiles against them."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).parent / "consumer"
EXAMPLES = sorted(path.stem for path in (ROOT / "contracts" / "roots" / "consumers").glob("*.sol"))
IN_PACKAGE = Path("node_modules", "@qos-oracle", "contracts")


def run(*command: str, cwd: Path) -> str:
    program = shutil.which(command[0]) or str(ROOT / ".venv" / "bin" / command[0])
    done = subprocess.run(
        [program, *command[1:]], cwd=cwd, capture_output=True, text=True, check=False, timeout=240
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project of somebody else's, which installed what `npm pack` made; no registry is asked."""
    folder = tmp_path_factory.mktemp("consumer")
    cache = ("--cache", str(folder / "cache"))
    packed = run("npm", "pack", str(ROOT / "contracts"), "--json", *cache, cwd=folder)
    (package,) = json.loads(packed)
    (folder / "package.json").write_text('{"name": "consumer", "private": true}', "utf-8")
    run("npm", "install", "--offline", f"./{package['filename']}", *cache, cwd=folder)
    for name in ("Consumer.sol", "RootConsumer.sol"):
        shutil.copy(HERE / name, folder)
    return folder


@pytest.mark.slow
def test_consumer_project_compiles_against_the_package(project: Path):
    compiled = run("node", str(HERE / "compile.mjs"), str(project), "Consumer.sol", cwd=project)

    assert {"Consumer", "IQoSOracle", "IKickTarget"} <= set(compiled.split())


@pytest.mark.slow
def test_consumer_of_proofs_compiles_against_the_package(project: Path):
    compiled = run(
        "node", str(HERE / "compile.mjs"), str(project), "RootConsumer.sol", cwd=project
    )

    assert {"RootConsumer", "IQoSRoots", "QoSProof"} <= set(compiled.split())


@pytest.mark.slow
@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_of_the_package_are_those_that_are_tested(project: Path, name: str):
    """The artifacts, which tests/contracts/roots deploys, have the bytecode of the package."""
    built = ROOT / "abi" / "roots" / "consumers" / f"{name}.json"
    source = f"@qos-oracle/contracts/roots/consumers/{name}.sol"
    compiler = str(HERE / "compile.mjs")
    command = ("node", compiler, str(project), "--bytecode", source, str(built))

    bytecode = run(*command, cwd=project).strip()

    assert bytecode == json.loads(built.read_text("utf-8"))["bytecode"]


@pytest.mark.slow
def test_example_of_the_documentation_compiles_against_the_package(project: Path):
    page = (ROOT / "docs" / "how-to" / "use-the-scores.md").read_text("utf-8")
    (source,) = re.findall(r"^```solidity\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    (project / "Marketplace.sol").write_text(f"pragma solidity ^0.8.20;\n{source}", "utf-8")

    compiled = run("node", str(HERE / "compile.mjs"), str(project), "Marketplace.sol", cwd=project)

    assert "Marketplace" in compiled.split()


@pytest.mark.slow
def test_package_contains_all_contracts_except_test_contracts(project: Path):
    package = project / IN_PACKAGE
    inside = {str(path.relative_to(package)) for path in package.rglob("*.sol")}
    sources = ROOT / "contracts"
    source_names = {str(path.relative_to(sources)) for path in sources.rglob("*.sol")}

    assert inside == {name for name in source_names if not name.startswith(("testing/", "bench/"))}


@pytest.mark.slow
def test_package_contains_the_descriptors(project: Path):
    source = ROOT / "contracts" / "descriptors"
    packed = project / IN_PACKAGE / "descriptors"

    assert {path.name: path.read_bytes() for path in packed.iterdir()} == {
        path.name: path.read_bytes() for path in source.iterdir()
    }


@pytest.mark.slow
@pytest.mark.nightly
def test_contracts_compile_from_the_installed_package(project: Path):
    name = "@qos-oracle/contracts/QoSOracle.sol"

    assert "QoSOracle" in run("node", str(HERE / "compile.mjs"), str(project), name, cwd=project)
