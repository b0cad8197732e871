"""The npm package of the TypeScript client: packed, checked by tsc, and run against a server.

Its development dependencies come from a registry, by the hashes of its lock file.
"""

import json
import shutil
import tarfile
from pathlib import Path

import pytest

from client_types.__main__ import TYPESCRIPT, TYPESCRIPT_TYPES, generate_typescript, install_tools
from client_types.description import build_openapi_description
from qos_oracle_client import Client
from tests.contracts.consumer_project import run

pytestmark = [pytest.mark.slow]

CONSUMER = Path(__file__).parent / "consumer"
TSC = ("node", "node_modules/typescript/bin/tsc", "--strict", "--module", "nodenext")
TARGET = ("--target", "es2022", "--lib", "es2022,dom")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a project with the packed client and the dependencies of its lock file."""
    folder = tmp_path_factory.mktemp("consumer")
    install_tools(folder)
    packed = run("npm", "pack", str(TYPESCRIPT), "--json", cwd=folder)
    with tarfile.open(folder / json.loads(packed)[0]["filename"]) as archive:
        archive.extractall(folder, filter="data")
    (folder / "node_modules" / "@qos-oracle").mkdir()
    (folder / "package").rename(folder / "node_modules" / "@qos-oracle" / "client")
    (folder / "package.json").write_text('{"type": "module"}', "utf-8")
    for path in CONSUMER.glob("*.ts"):
        shutil.copy(path, folder)
    return folder


def test_generator_reproduces_committed_types(project: Path):
    assert generate_typescript(build_openapi_description(), project) == TYPESCRIPT_TYPES.read_text(
        "utf-8"
    )


def test_type_checked_program_reads_nodes_from_the_server(project: Path, url: str):
    """The program marks wrong uses with @ts-expect-error, so tsc fails if the types allow one."""
    run(*TSC, *TARGET, "process.d.ts", "program.ts", cwd=project)
    printed = json.loads(run("node", "program.js", url, cwd=project).partition("\n")[0])
    best = Client(url).nodes(limit=1)["nodes"][0]["node"]
    assert printed == {"best": best, "count": 2, "missing": 404}
