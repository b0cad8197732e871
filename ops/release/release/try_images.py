"""Starts a release's container images without a container runtime (`make oci-try`)."""

import json
import os
import sys
import tarfile
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from release.layers import ARCHITECTURE, check_programs_start
from release.oci import DIST, IMAGES
from release.wheels import hash_file


def main(arguments: Sequence[str]) -> None:
    """Start the programs in the images of a folder, by default dist/.

    Raises:
        SystemExit: an image is missing or wrong; the message names the reason.
    """
    folder = Path(arguments[0]) if arguments else DIST
    if os.geteuid() != 0 or os.uname().machine != "x86_64":
        raise SystemExit("images are started by root, and on x86-64 only")
    with TemporaryDirectory() as name:
        layers = extract_all_layers(folder, Path(name))
        check_programs_start(layers, Path(name) / "container")
    sys.stdout.write(f"the images in {folder} start\n")


def extract_all_layers(folder: Path, into: Path) -> list[Path]:
    """Extract the layers of every image.

    Return those of the image with the most layers. The layers of every other image are the first
    layers of this image.

    Raises:
        SystemExit: an image is missing, has another layer, or a blob has another hash than its
            name.
    """
    images = [
        _extract_layers(_find_archive(folder, image.name), into / image.name) for image in IMAGES
    ]
    longest_layers = max(images, key=len)
    for image, layers in zip(IMAGES, images, strict=True):
        layer_names = [layer.name for layer in layers]
        if layer_names != [layer.name for layer in longest_layers[: len(layers)]]:
            raise SystemExit(f"{image.name}: its layers are not those of the other images")
    return longest_layers


def _find_archive(folder: Path, name: str) -> Path:
    # Versions begin with a digit. Without `[0-9]`, the pattern would also match the gateway's
    # image.
    paths = sorted(folder.glob(f"{name}-[0-9]*-{ARCHITECTURE}.oci.tar"))
    if len(paths) != 1:
        raise SystemExit(
            f"{folder}: {len(paths)} archives of the image {name}, instead of one; run `make oci`"
        )
    return paths[0]


def _extract_layers(archive_path: Path, folder: Path) -> list[Path]:
    """Extract an OCI archive, and return its layers, verified and in order.

    The order is that of the index.
    """
    with tarfile.open(archive_path) as archive:
        archive.extractall(folder, filter="data")
    (reference,) = _read_json(folder / "index.json")["manifests"]
    manifest = _read_json(_verify_blob(folder, reference["digest"]))
    _verify_blob(folder, manifest["config"]["digest"])
    return [_verify_blob(folder, layer["digest"]) for layer in manifest["layers"]]


def _verify_blob(folder: Path, digest: str) -> Path:
    blob_path = folder / "blobs" / digest.replace(":", "/")
    if f"sha256:{hash_file(blob_path)}" != digest:
        raise SystemExit(f"{blob_path}: the hash of its bytes is not {digest}")
    return blob_path


def _read_json(path: Path) -> Any:  # noqa: ANN401  # JSON has no narrower type
    return json.loads(path.read_text("utf-8"))


if __name__ == "__main__":
    main(sys.argv[1:])
