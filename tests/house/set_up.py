"""A checkout for tests of bootstrap: small locks, a small build,
and a package index on 127.0.0.1.
"""

import base64
import hashlib
import json
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from pathlib import Path
from zipfile import ZipFile, ZipInfo

import pytest

import bootstrap

# Builds an editable wheel with the standard library alone, so that no build tool is fetched.
_BACKEND = """
from pathlib import Path
from zipfile import ZipFile

NAME = {name!r}

def build_editable(folder, config_settings=None, metadata_directory=None):
    with ZipFile(Path(folder, f"{{NAME}}-1.0-py3-none-any.whl"), "w") as wheel:
        info = f"{{NAME}}-1.0.dist-info"
        metadata = f"Metadata-Version: 2.1\\nName: {{NAME}}\\nVersion: 1.0\\n{requires}"
        wheel.writestr(f"{{info}}/METADATA", metadata)
        wheel.writestr(f"{{info}}/WHEEL", "Wheel-Version: 1.0\\nTag: py3-none-any\\n")
        wheel.writestr(f"{{info}}/entry_points.txt", "[console_scripts]\\nhello = hello:main\\n")
        wheel.writestr("hello.py", "def main():\\n    print('hello')\\n")
        wheel.writestr(f"{{info}}/RECORD", f"hello.py,,\\n{{info}}/RECORD,,\\n")
    return f"{{NAME}}-1.0-py3-none-any.whl"

build_wheel = build_editable
"""
_PROJECT = """
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]
[project]
name = "{name}"
version = "1.0"
"""


@dataclass(frozen=True)
class Wheel:
    """A wheel with one empty module and the requirements of its metadata."""

    name: str
    version: str
    requires: Sequence[str] = ()
    extras: Sequence[str] = ()

    @property
    def filename(self) -> str:
        return f"{self.name}-{self.version}-py3-none-any.whl"

    @property
    def content(self) -> bytes:
        lines = ["Metadata-Version: 2.1", f"Name: {self.name}", f"Version: {self.version}"]
        lines += [f"Provides-Extra: {extra}" for extra in self.extras]
        lines += [f"Requires-Dist: {requirement}" for requirement in self.requires]
        info = f"{self.name}-{self.version}.dist-info"
        files = {
            f"{self.name}.py": "",
            f"{info}/METADATA": "\n".join([*lines, ""]),
            f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        }
        record = "".join(f"{name},,\n" for name in (*files, f"{info}/RECORD"))
        packed = BytesIO()
        with ZipFile(packed, "w") as archive:
            for name, text in {**files, f"{info}/RECORD": record}.items():
                # A fixed time: the same wheel has the same hash.
                archive.writestr(_entry(name), text)
        return packed.getvalue()

    @property
    def pin(self) -> str:
        return f"{self.name}=={self.version} --hash=sha256:{sha256(self.content)}\n"


def _entry(name: str) -> ZipInfo:
    return ZipInfo(name, (2020, 1, 1, 0, 0, 0))


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@dataclass
class Index:
    """The files of an index (names and bytes), and its recorded requests."""

    files: dict[str, bytes] = field(default_factory=dict)
    paths: list[str] = field(default_factory=list)
    password: str = ""
    address: str = ""

    def add(self, *wheels: Wheel) -> None:
        self.files.update({wheel.filename: wheel.content for wheel in wheels})


@contextmanager
def serve_index(index: Index) -> Iterator[Index]:
    """Serve the index on 127.0.0.1, with the index's password in the address if there is one."""
    authorized = f"Basic {base64.b64encode(f'ada:{index.password}'.encode()).decode()}"

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            index.paths.append(self.path)
            if index.password and self.headers["Authorization"] != authorized:
                self.send_error(401)
                return
            body = _body(index, self.path)
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            """Drop the access log."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=[0.01], daemon=True).start()
    try:
        user = f"ada:{index.password}@" if index.password else ""
        index.address = f"http://{user}127.0.0.1:{server.server_port}/simple"
        yield index
    finally:
        server.shutdown()
        server.server_close()


def _body(index: Index, path: str) -> bytes:
    if path.endswith(".whl"):
        return index.files[path.rpartition("/")[2]]
    package = path.strip("/").rpartition("/")[2].replace("-", "_")
    links = [
        f'<a href="../../files/{name}#sha256={sha256(content)}">{name}</a>'
        for name, content in index.files.items()
        if name.startswith(f"{package}-")
    ]
    return "\n".join(links).encode()


def use_index(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    """Configure pip for this index only, whatever the machine's settings are."""
    for name in ("PIP_FIND_LINKS", "PIP_EXTRA_INDEX_URL", "PIP_NO_INDEX", "PIP_CERT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_INDEX_URL", index.address)
    monkeypatch.setenv("PIP_NO_CACHE_DIR", "1")
    monkeypatch.setenv("PIP_RETRIES", "0")


def make_checkout(
    root: Path, monkeypatch: pytest.MonkeyPatch, locks: Mapping[str, str] | None = None
) -> None:
    """Write a checkout without npm packages and without native code, and let bootstrap use it."""
    root.mkdir(exist_ok=True)
    monkeypatch.setattr(bootstrap, "ROOT", root)
    monkeypatch.setattr(bootstrap, "prepare_native_code", lambda _: None)
    (root / "constraints").mkdir()
    for name in ("build", "run", "check", "node", "docs", "audit"):
        (root / f"constraints/{name}.txt").write_text((locks or {}).get(name, ""), "utf-8")
    (root / "pyproject.toml").write_text(_PROJECT.format(name="hello"), "utf-8")
    (root / "backend.py").write_text(_BACKEND.format(name="hello", requires=""), "utf-8")
    (root / ".npmrc").write_text("", "utf-8")
    package = {"name": "hello", "version": "1.0.0"}
    (root / "package.json").write_text(json.dumps(package), "utf-8")
    lock = {**package, "lockfileVersion": 3, "packages": {"": package}}
    (root / "package-lock.json").write_text(json.dumps(lock), "utf-8")


def link_this_python(environment: Path) -> None:
    """Create an environment that links to this Python, which saves the installation of pip."""
    (environment / "bin").mkdir(parents=True)
    (environment / "bin/python").symlink_to(sys.executable)
