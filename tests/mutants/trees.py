"""Copies of the checkout for mutants: one real copy, and hard links to it for the others."""

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

from tests.house.product import PACKAGES
from tests.mutants.patches import ROOT, Mutant, try_apply

# Files of a checkout that are not in git.
_LINKED = ("node_modules", ".venv")
# Files that a test run creates.
_LEFT = shutil.ignore_patterns(".hypothesis", "told-*")
# Compiled mutants of contracts, by the hash of their inputs: compiling takes longer than the
# tests.
_COMPILED = ROOT / ".mutants_cache"
_BUILD_SECONDS = 300

# By path: size and modification time.
Look = dict[str, tuple[int, int]]


def copy_checkout(place: Path) -> Path:
    """Copy the files that git tracks or would track; installed packages are linked."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],  # noqa: S607 - git is where it is
        cwd=ROOT,
        capture_output=True,
        check=True,
        text=True,
    )
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).is_file():
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, place / name)
    for name in _LINKED:
        if (ROOT / name).exists():
            (place / name).symlink_to(ROOT / name)
    return place


def create_mutated_tree(mutant: Mutant, unmodified_tree: Path, place: Path) -> str | None:
    """Create a tree with the patch applied from the unmodified tree; return an error, or None.

    Files are hard links, including compiled ones, so that only changed files are compiled again:
    git replaces a file that it changes. A compiler of contracts writes into existing files, so
    trees for compiling are copied.
    """
    carry = os.link if mutant.build is None else shutil.copy2
    shutil.copytree(unmodified_tree, place, symlinks=True, copy_function=carry, ignore=_LEFT)
    fault = try_apply(mutant, place)
    if fault is not None:
        return fault
    for name in mutant.patched:
        path = place / name
        # Python identifies a source by modification second and size, both of which may be
        # unchanged.
        for old in (path.parent / "__pycache__").glob(f"{path.stem}.*"):
            old.unlink()
    return _built(mutant, place)


def _built(mutant: Mutant, tree: Path) -> str | None:
    """Compile the contract that the patch changed, if any; return an error, or None."""
    if mutant.build is None:
        return None
    # The name of a contract is unique in all folders.
    (written,) = (tree / "abi").rglob(f"{mutant.build}.json")
    cached_artifact = _COMPILED / f"{mutant.build}-{_sources(tree)}.json"
    if cached_artifact.exists():
        shutil.copy(cached_artifact, written)
        return None
    node = shutil.which("node") or str(ROOT / ".venv" / "bin" / "node")
    # Without its guard a name may be unused, of which solc warns.
    command = [node, "contracts/build.mjs", "--warned", mutant.build]
    built = subprocess.run(
        command, cwd=tree, capture_output=True, text=True, check=False, timeout=_BUILD_SECONDS
    )
    if built.returncode != 0 or "done" not in built.stdout:
        return f"{mutant.build} was not built anew: {(built.stdout + built.stderr).strip()}"
    _COMPILED.mkdir(exist_ok=True)
    half = cached_artifact.with_suffix(f".{os.getpid()}.{mutant.name}")
    shutil.copy(written, half)
    half.replace(cached_artifact)
    return None


def _sources(tree: Path) -> str:
    sha = hashlib.sha256((tree / "package-lock.json").read_bytes())
    for path in sorted((tree / "contracts").rglob("*.*")):
        sha.update(str(path.relative_to(tree)).encode())
        sha.update(path.read_bytes())
    return sha.hexdigest()


def stat_sources(tree: Path) -> Look:
    """Return the size and the modification time of each source file of a tree.

    A test that wrote into a source file changed all hard links to the file.
    """
    return {
        str(path.relative_to(tree)): (path.stat().st_size, path.stat().st_mtime_ns)
        for folder in (*PACKAGES, "tests", "migrations", "abi", "contracts", "config")
        for path in (tree / folder).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
