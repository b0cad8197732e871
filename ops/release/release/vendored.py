"""Copies files for the web pages from npm packages (`make vendored`).

A browser loads these files. The repository and the wheel contain these files, byte for byte as in
npm, so an installation does not need npm. `vendor.json` lists the package, version and integrity
of each file, and tests/house/test_vendored.py compares the list with ops/pages/package-lock.json.
"""

import json
import shutil
import subprocess
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from release.pins import ROOT

PACKAGES = ROOT / "ops/pages"
VENDOR_FOLDER = ROOT / "oracle/daemon/web/pages/static/vendor"
VENDOR_LIST = VENDOR_FOLDER / "vendor.json"
# Source of each vendored file: the npm package, and the path inside it.
FILES = {
    "htmx.min.js": ("htmx.org", "dist/htmx.min.js"),
    "htmx.LICENSE": ("htmx.org", "LICENSE"),
    "keccak.min.js": ("js-sha3", "build/sha3.min.js"),
    "keccak.LICENSE": ("js-sha3", "LICENSE.txt"),
    "redoc.standalone.js": ("redoc", "bundles/redoc.standalone.js"),
    "redoc.LICENSE": ("redoc", "LICENSE"),
    "uPlot.iife.min.js": ("uplot", "dist/uPlot.iife.min.js"),
    "uPlot.min.css": ("uplot", "dist/uPlot.min.css"),
    "uplot.LICENSE": ("uplot", "LICENSE"),
}


def read_locked_packages() -> dict[str, Any]:
    """Read the entries of the lock file, by package name."""
    lock_document = json.loads((PACKAGES / "package-lock.json").read_text("utf-8"))
    packages = lock_document["packages"].items()
    return {path.removeprefix("node_modules/"): package for path, package in packages if path}


def build_vendor_rows() -> list[dict[str, Any]]:
    """Build the content of `vendor.json` for the vendored files."""
    packages = read_locked_packages()
    return [
        {
            "file": name,
            "package": package,
            "version": packages[package]["version"],
            "integrity": packages[package]["integrity"],
            "license": packages[package]["license"],
            "sha256": sha256((VENDOR_FOLDER / name).read_bytes()).hexdigest(),
        }
        for name, (package, _) in sorted(FILES.items())
    ]


def main() -> None:
    """Install the locked packages without running scripts, and copy the files."""
    with TemporaryDirectory() as folder:
        for name in ("package.json", "package-lock.json"):
            shutil.copy(PACKAGES / name, folder)
        subprocess.run(["npm", "ci", "--ignore-scripts"], cwd=folder, check=True)  # noqa: S607 - npm is where it is
        VENDOR_FOLDER.mkdir(parents=True, exist_ok=True)
        for name, (package, source) in FILES.items():
            shutil.copyfile(Path(folder) / "node_modules" / package / source, VENDOR_FOLDER / name)
    VENDOR_LIST.write_text(json.dumps(build_vendor_rows(), indent=2) + "\n", "utf-8")


if __name__ == "__main__":
    main()
