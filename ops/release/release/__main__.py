"""Makes a release in dist/ (`make release`, docs/how-to/release.md).

The exit code is 1 if the checkout has uncommitted changes, two builds differ, the artifacts in
abi/ do not match the contracts, CHANGELOG.md lacks the version, (without --tags) an image is
referenced without a digest, or (without --no-images) this machine cannot build container images.
"""

import argparse
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from oracle.cli.changelog import split_changelog_by_version
from oracle.daemon.web.pages.verify_page import build_verify_page
from release.constraints import read_project
from release.images import list_unpinned_images
from release.layers import find_image_build_obstacle
from release.licenses import list_debian_packages, render_third_party
from release.oci import build_images
from release.pins import FOLDER, ROOT
from release.sbom import build_sbom
from release.site import build_site
from release.statements import build_provenance, format_checksum_lines, sign_file
from release.wheels import (
    build_sdist,
    build_wheel,
    build_wheel_from_sdist,
    extract_sources,
    get_commit_hash,
    get_commit_time,
    hash_file,
    is_checkout_clean,
    pack_npm_package,
)

DIST = ROOT / "dist"
_FIRST_STEPS = """\
To read the documentation, start a web server in this folder, and open http://127.0.0.1:8000/:

    tar -xzf qos-oracle-docs-{version}.tar.gz
    python3 -m http.server --bind 127.0.0.1 --directory qos-oracle-docs-{version} 8000

First check the hashes and the signature, then install the package:

- http://127.0.0.1:8000/how-to/release/#check-a-published-release
- http://127.0.0.1:8000/how-to/install-and-start/

"""


def main(arguments: Sequence[str]) -> None:
    """Build the release twice, compare the builds, and write the files to dist/.

    Raises:
        SystemExit: the release cannot be made; the message names the reason.
    """
    parser = argparse.ArgumentParser(prog="make release", description=__doc__)
    parser.add_argument("--tags", action="store_true", help="accept images without a digest")
    parser.add_argument(
        "--key", metavar="FILE", type=Path, help="file of the SSH key that signs SHA256SUMS"
    )
    parser.add_argument(
        "--debian",
        metavar="SOURCE",
        action="append",
        default=[],
        help="package source of the images; repeatable",
    )
    parser.add_argument(
        "--no-images", action="store_true", help="make a release without container images"
    )
    options = parser.parse_args(arguments)
    release_notes = _check_preconditions(options)
    commit_time = get_commit_time()
    with TemporaryDirectory() as folder:
        packages = _build_packages_twice(Path(folder), commit_time)
        shutil.rmtree(DIST, ignore_errors=True)
        DIST.mkdir()
        dist_files = [Path(shutil.copy(package, DIST)) for package in packages]
    wheel = dist_files[0]
    name = wheel.name.partition("-py3-")[0]
    sbom = build_sbom(wheel, commit_time)
    dist_files += [
        _write_dist_file(f"{name}.cdx.json", sbom),
        _write_dist_file("requirements.txt", (FOLDER / "run.txt").read_text("utf-8")),
        _write_dist_file("verify.html", build_verify_page()),
        _write_dist_file("RELEASE_NOTES.md", render_release_notes(release_notes)),
    ]
    images = [] if options.no_images else build_images(DIST, commit_time, options.debian)
    dist_files += images
    debian_packages = list_debian_packages(images[0]) if images else []
    dist_files.append(
        _write_dist_file("THIRD_PARTY.md", render_third_party(sbom, debian_packages))
    )
    provenance = build_provenance(dist_files, get_commit_hash(), options.debian)
    dist_files.append(_write_dist_file(f"{name}.intoto.json", provenance))
    lines = format_checksum_lines(dist_files)
    hashes = _write_dist_file("SHA256SUMS", "\n".join([*lines, ""]))
    for line in lines:
        _print_line(line)
    if options.key is not None:
        sign_file(hashes, options.key)


def _check_preconditions(options: argparse.Namespace) -> str:
    """Check that this checkout can be released, and return the changes of the version.

    Raises:
        SystemExit: no release can be made; the message names the reason.
    """
    unpinned_images = list_unpinned_images()
    for image in unpinned_images:
        _print_line(f"{image}: no digest; run `make images`")
    if unpinned_images and not options.tags:
        raise SystemExit(1)
    if not is_checkout_clean():
        raise SystemExit("the checkout has uncommitted changes; commit or remove them")
    if options.key is not None and not options.key.is_file():
        raise SystemExit(f"--key: {options.key}: no such file")
    obstacle = None if options.no_images else find_image_build_obstacle()
    if obstacle is not None:
        raise SystemExit(f"no container images: {obstacle}; or pass --no-images")
    version = read_project()["project"]["version"]
    release_notes = split_changelog_by_version((ROOT / "CHANGELOG.md").read_text("utf-8")).get(
        version
    )
    if release_notes is None:
        raise SystemExit(f"CHANGELOG.md has no section [{version}]; write it")
    return release_notes


def render_release_notes(changes: str) -> str:
    """Render RELEASE_NOTES.md.

    It contains how to read the documentation, and the version's changes. A user who has only the
    folder of the release opens this file first.
    """
    return _FIRST_STEPS.format(version=read_project()["project"]["version"]) + changes


def _build_packages_twice(folder: Path, epoch: int) -> list[Path]:
    """Build all packages in two folders, compare them, and return the first folder's files.

    Raises:
        SystemExit: two builds differ, or abi/ is not what the contracts compile to.
    """
    checkouts = [extract_sources(folder / name) for name in ("first", "a second")]
    builds = [_build_packages(checkout, epoch) for checkout in checkouts]
    for first, second in zip(*builds, strict=True):
        if hash_file(first) != hash_file(second):
            raise SystemExit(f"two builds of {first.name} differ")
    wheel, sdist, native_wheel, native_sdist, *_ = builds[0]
    for archive, built in ((sdist, wheel), (native_sdist, native_wheel)):
        rebuilt_wheel = build_wheel_from_sdist(archive, folder / "from sdist", epoch)
        if hash_file(rebuilt_wheel) != hash_file(built):
            raise SystemExit(f"the wheel built from {archive.name} differs from {built.name}")
    if not _is_abi_up_to_date(checkouts[0]):
        raise SystemExit("abi/ does not match the contracts; compile them and commit the result")
    return builds[0]


def _build_packages(checkout: Path, epoch: int) -> list[Path]:
    """Build all packages of a release.

    They contain the product, the native code, the clients, the contracts and the docs. The wheel
    of the native code is for this platform. On other platforms, it is built from its source
    distribution.
    """
    out_folder = checkout.with_name(f"{checkout.name} out")
    native_folder = checkout / "native"
    client_folder = checkout / "clients/python"
    return [
        build_wheel(checkout, out_folder / "wheel", epoch),
        build_sdist(checkout, out_folder / "sdist", epoch),
        build_wheel(native_folder, out_folder / "native wheel", epoch),
        build_sdist(native_folder, out_folder / "native sdist", epoch),
        build_wheel(client_folder, out_folder / "client", epoch),
        pack_npm_package(checkout / "contracts", out_folder / "contracts"),
        pack_npm_package(checkout / "clients/typescript", out_folder / "typescript"),
        build_site(checkout, out_folder / "site", read_project()["project"]["version"], epoch),
    ]


def _write_dist_file(name: str, content: str) -> Path:
    path = DIST / name
    path.write_text(content, "utf-8")
    return path


def _is_abi_up_to_date(checkout: Path) -> bool:
    """Return whether the compiled contracts equal abi/.

    They are compiled in a clean checkout.
    """
    (checkout / "node_modules").symlink_to(ROOT / "node_modules")
    node = shutil.which("node") or str(ROOT / ".venv/bin/node")
    command = [node, str(checkout / "contracts/build.mjs"), "--check"]
    return subprocess.run(command, check=False).returncode == 0  # noqa: S603 - of the commit


def _print_line(line: str) -> None:
    sys.stdout.write(f"{line}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
