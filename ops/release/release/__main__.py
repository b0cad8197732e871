"""Makes a release in dist/: `make release` (docs/how-to/release.md).

The exit code is 1 if the checkout has uncommitted changes, two builds differ, the artifacts in
abi/ do not match the contracts, CHANGELOG.md lacks the version, or (without --tags) an image is
referenced without a digest.
"""

import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from oracle.cli.changelog import split_releases
from oracle.daemon.web.pages.verify_page import build_verify_page
from release.constraints import load_project
from release.images import list_unpinned_images
from release.pins import ROOT
from release.sbom import build_sbom
from release.statements import build_hash_lines, build_provenance
from release.wheels import (
    build_sdist,
    build_wheel,
    build_wheel_from_sdist,
    extract_sources,
    get_commit_hash,
    get_commit_time,
    is_clean,
    pack_npm_package,
    sha256,
)

DIST = ROOT / "dist"


def main(flags: Sequence[str]) -> int:
    """Build the release twice, compare the builds, and write the files to dist/."""
    unpinned_images = list_unpinned_images()
    for image in unpinned_images:
        _print_line(f"{image}: no digest; run `make images`")
    if unpinned_images and "--tags" not in flags:
        return 1
    if not is_clean():
        _print_line("the checkout has uncommitted changes; commit or remove them")
        return 1
    with TemporaryDirectory() as folder:
        return _make_release(Path(folder))


def _make_release(folder: Path) -> int:
    epoch, commit = get_commit_time(), get_commit_hash()
    checkouts = [extract_sources(folder / name) for name in ("first", "a second")]
    builds = [_build_packages(checkout, epoch) for checkout in checkouts]
    for first, second in zip(*builds, strict=True):
        if sha256(first) != sha256(second):
            _print_line(f"two builds of {first.name} differ")
            return 1
    wheel, sdist, native_wheel, native_sdist, *_ = builds[0]
    for archive, built in ((sdist, wheel), (native_sdist, native_wheel)):
        rebuilt = build_wheel_from_sdist(archive, folder / "from sdist", epoch)
        if sha256(rebuilt) != sha256(built):
            _print_line(f"the wheel built from {archive.name} is not {built.name}")
            return 1
    if not _artifacts_match(checkouts[0]):
        _print_line("abi/ does not match the contracts; compile them and commit the result")
        return 1
    version = load_project()["project"]["version"]
    notes = split_releases((ROOT / "CHANGELOG.md").read_text("utf-8")).get(version)
    if notes is None:
        _print_line(f"CHANGELOG.md has no section [{version}]; write it")
        return 1
    shutil.rmtree(DIST, ignore_errors=True)
    DIST.mkdir()
    files = [Path(shutil.copy(package, DIST)) for package in builds[0]]
    name = wheel.name.partition("-py3-")[0]
    files += [
        _write(f"{name}.cdx.json", build_sbom(wheel, epoch)),
        _write("verify.html", build_verify_page()),
        _write("RELEASE_NOTES.md", notes),
    ]
    files.append(_write(f"{name}.intoto.json", build_provenance(files, commit)))
    _write_hashes(files)
    return 0


def _build_packages(checkout: Path, epoch: int) -> list[Path]:
    """Build all packages of a checkout: wheel and source of product and native code, and others.

    The native code's wheel is for this platform; elsewhere it is built from its source
    distribution.
    """
    out = checkout.with_name(f"{checkout.name} out")
    native, client = checkout / "native", checkout / "clients/python"
    return [
        build_wheel(checkout, out / "wheel", epoch),
        build_sdist(checkout, out / "sdist", epoch),
        build_wheel(native, out / "native wheel", epoch),
        build_sdist(native, out / "native sdist", epoch),
        build_wheel(client, out / "client", epoch),
        pack_npm_package(checkout / "contracts", out / "contracts"),
        pack_npm_package(checkout / "clients/typescript", out / "typescript"),
    ]


def _write(name: str, content: str) -> Path:
    path = DIST / name
    path.write_text(content, "utf-8")
    return path


def _artifacts_match(checkout: Path) -> bool:
    """Compile the contracts in a clean checkout; return whether the result equals abi/."""
    (checkout / "node_modules").symlink_to(ROOT / "node_modules")
    node = shutil.which("node") or str(ROOT / ".venv/bin/node")
    command = [node, str(checkout / "contracts/build.mjs"), "--check"]
    return subprocess.run(command, check=False).returncode == 0  # noqa: S603 - of the commit


def _write_hashes(files: Sequence[Path]) -> None:
    """Write SHA256SUMS for `sha256sum --check`: all files and the contracts' artifacts."""
    artifacts = sorted((ROOT / "abi").rglob("*.json"))
    lines = build_hash_lines(DIST, [*files, *artifacts])
    _write("SHA256SUMS", "\n".join([*lines, ""]))
    for line in lines[: len(files)]:
        _print_line(line)


def _print_line(line: str) -> None:
    sys.stdout.write(f"{line}\n")


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
