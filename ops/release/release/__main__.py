"""Makes a release in dist/: `make release` (docs/how-to/release.md).

The exit code is 1 if the checkout has uncommitted changes, two builds differ, the artifacts in
abi/ do not match the contracts, or (without --tags) an image is referenced without a digest.
"""

import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from oracle.daemon.web.pages.verify_page import build_verify_page
from release.images import list_unpinned_images
from release.pins import ROOT
from release.sbom import build_sbom
from release.wheels import build_wheel, extract_sources, get_commit_time, is_clean, sha256

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
    epoch = get_commit_time()
    checkouts = [extract_sources(folder / name) for name in ("first", "a second")]
    built_wheels = [_build_wheels(checkout, epoch) for checkout in checkouts]
    if [*map(sha256, built_wheels[0])] != [*map(sha256, built_wheels[1])]:
        _print_line("two builds of the same wheel differ")
        return 1
    if not _artifacts_match(checkouts[0]):
        _print_line("abi/ does not match the contracts; compile them and commit the result")
        return 1
    shutil.rmtree(DIST, ignore_errors=True)
    DIST.mkdir()
    wheel, native = (Path(shutil.copy(checkout, DIST)) for checkout in built_wheels[0])
    sbom = DIST / f"{wheel.name.removesuffix('.whl')}.cdx.json"
    sbom.write_text(build_sbom(wheel, epoch), "utf-8")
    page = DIST / "verify.html"
    page.write_text(build_verify_page(), "utf-8")
    _write_hashes(wheel, sbom, native, page)
    return 0


def _build_wheels(checkout: Path, epoch: int) -> tuple[Path, Path]:
    """Build the product's wheel, and the wheel of the native code for this platform."""
    out = checkout.with_name(f"{checkout.name} out")
    native = build_wheel(checkout / "native", out / "native", epoch)
    return build_wheel(checkout, out, epoch), native


def _artifacts_match(checkout: Path) -> bool:
    """Compile the contracts in a clean checkout; return whether the result equals abi/."""
    (checkout / "node_modules").symlink_to(ROOT / "node_modules")
    node = shutil.which("node") or str(ROOT / ".venv/bin/node")
    command = [node, str(checkout / "contracts/build.mjs"), "--check"]
    return subprocess.run(command, check=False).returncode == 0  # noqa: S603 - of the commit


def _write_hashes(*built_files: Path) -> None:
    """Write SHA256SUMS for `sha256sum --check`: all built files and the contracts' artifacts."""
    artifacts = sorted((ROOT / "abi").glob("*.json"))
    lines = [f"{sha256(path)}  {path.name}" for path in built_files]
    lines += [f"{sha256(path)}  ../abi/{path.name}" for path in artifacts]
    (DIST / "SHA256SUMS").write_text("\n".join([*lines, ""]), "utf-8")
    for line in lines[: len(built_files)]:
        _print_line(line)


def _print_line(line: str) -> None:
    sys.stdout.write(f"{line}\n")


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
