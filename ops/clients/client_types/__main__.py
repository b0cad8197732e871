"""Writes the generated files of the clients (`make clients`).

The TypeScript files require npm.
"""

import json
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from client_types.description import build_openapi_description, compute_digest
from client_types.python_types import generate_models, generate_operations

_CLIENTS = Path(__file__).resolve().parents[3] / "clients"
PYTHON = _CLIENTS / "python" / "qos_oracle_client"
TYPESCRIPT = _CLIENTS / "typescript"
TYPESCRIPT_TYPES = TYPESCRIPT / "schema.d.ts"
_LOCKED = ("package.json", "package-lock.json")


def main() -> None:
    """Write the types of both clients."""
    description = build_openapi_description()
    for name, text in generate_python_files(description).items():
        (PYTHON / name).write_text(text, "utf-8")
    with tempfile.TemporaryDirectory() as folder:
        install_tools(Path(folder))
        TYPESCRIPT_TYPES.write_text(generate_typescript(description, Path(folder)), "utf-8")


def generate_python_files(description: dict[str, Any]) -> dict[str, str]:
    """Generate the Python files.

    The result is the text of each file, by file name.
    """
    return {
        "models.py": generate_models(description["components"]["schemas"]),
        "operations.py": generate_operations(description["paths"]),
    }


def install_tools(folder: Path) -> None:
    """Install the locked development tools of the TypeScript package into a folder."""
    for name in (*_LOCKED, ".npmrc"):
        shutil.copy(TYPESCRIPT / name if name in _LOCKED else _CLIENTS.parent / name, folder)
    subprocess.run(["npm", "ci"], cwd=folder, check=True, capture_output=True, text=True)  # noqa: S607 - npm is where it is


def generate_typescript(description: dict[str, Any], tools: Path) -> str:
    """Generate the TypeScript types.

    Their first line contains the digest of the description.
    """
    (tools / "openapi.json").write_text(json.dumps(description), "utf-8")
    command = ["node", "node_modules/openapi-typescript/bin/cli.js", "openapi.json", "-o", "made"]
    subprocess.run(command, cwd=tools, check=True, capture_output=True, text=True)  # noqa: S603 - our own command
    return format_digest_line(description) + (tools / "made").read_text("utf-8")


def format_digest_line(description: dict[str, Any]) -> str:
    """Return the first line of the TypeScript types, which contains the digest."""
    return f"// Made by `make clients` of description {compute_digest(description)}\n"


if __name__ == "__main__":
    main()
