"""Builds container images without Docker or a registry (`make oci`, docs/how-to/release.md).

Every layer is built twice and compared. Then the programs are started in the unpacked layers, and
each image is written as an OCI layout in a tar archive.
"""

import gzip
import hashlib
import io
import json
import sys
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from release.constraints import read_project
from release.layers import (
    ARCHITECTURE,
    ENVIRONMENT,
    HOME,
    USER,
    build_application_layer,
    build_base_layer,
    build_devnet_layer,
    check_programs_start,
    find_image_build_obstacle,
)
from release.pins import ROOT
from release.wheels import (
    extract_sources,
    get_commit_hash,
    get_commit_time,
    hash_file,
    is_checkout_clean,
)

DIST = ROOT / "dist"


@dataclass(frozen=True)
class Image:
    """An image in the release, with its command and health check.

    `layer_count` is the number of layers that it contains, of base, application and devnet.
    """

    name: str
    description: str
    entrypoint: tuple[str, ...]
    command: tuple[str, ...]
    port: int
    health_check: str
    layer_count: int = 2


def _build_health_check(url: str, body: str = "") -> str:
    """Return the source of a Python program that requests a URL.

    The program fails if the request fails. If there is a body, the program posts the body.
    """
    data = f", data=b'{body}', headers={{'Content-Type': 'application/json'}}" if body else ""
    return f"import urllib.request as r; r.urlopen(r.Request('{url}'{data}), timeout=2)"


IMAGES = (
    Image(
        "qos-oracle",
        "Indexes a compute network's contracts, scores its nodes, and reports the scores on-chain",
        ("qos-oracle",),
        ("run",),
        8080,
        _build_health_check("http://127.0.0.1:8080/livez"),
    ),
    Image(
        "qos-oracle-gateway",
        "Selects nodes for the relays of a gateway by latency and success rate",
        ("qos-oracle",),
        ("gateway",),
        8091,
        _build_health_check("http://127.0.0.1:8091/healthz"),
    ),
    Image(
        "qos-oracle-devnet",
        "A local chain (Anvil), and with the entrypoint qos-oracle: `demo`, `devnet`",
        ("anvil", "--host", "0.0.0.0", "--prune-history", "2000"),  # noqa: S104 - in its container
        ("--block-time", "2"),
        8545,
        _build_health_check(
            "http://127.0.0.1:8545",
            '{"jsonrpc": "2.0", "id": 1, "method": "eth_chainId", "params": []}',
        ),
        3,
    ),
)
_MEDIA_TYPE = "application/vnd.oci.image"


def main(sources: Sequence[str]) -> None:
    """Build the images of the current commit, and write them to dist/.

    Raises:
        SystemExit: this machine cannot build them; the message names the reason.
    """
    obstacle = find_image_build_obstacle()
    if obstacle is not None:
        raise SystemExit(f"no container images: {obstacle}")
    if not is_checkout_clean():
        raise SystemExit("the checkout has uncommitted changes; commit or remove them")
    DIST.mkdir(exist_ok=True)
    for image in build_images(DIST, get_commit_time(), sources):
        sys.stdout.write(f"{hash_file(image)}  {image.name}\n")


def build_images(folder: Path, epoch: int, sources: Sequence[str]) -> list[Path]:
    """Build every layer twice, start the programs, and write the images to a folder.

    The two builds of a layer are compared.

    Raises:
        SystemExit: two builds of a layer differ. subprocess.CalledProcessError: a build or a
            started program failed.
    """
    with TemporaryDirectory() as name:
        builds = [
            _build_layers(Path(name) / build, epoch, sources) for build in ("first", "a second")
        ]
        for first, second in zip(*builds, strict=True):
            if hash_file(first) != hash_file(second):
                raise SystemExit(f"two builds of {first.name} differ")
        check_programs_start(builds[0], Path(name) / "container")
        return [write_image(image, builds[0], folder, epoch) for image in IMAGES]


def _build_layers(folder: Path, epoch: int, sources: Sequence[str]) -> list[Path]:
    checkout = extract_sources(folder / "checkout")
    return [
        build_base_layer(folder / "base.tar", epoch, sources),
        build_application_layer(checkout, folder / "application", epoch),
        build_devnet_layer(folder / "devnet", epoch),
    ]


def write_image(image: Image, layers: Sequence[Path], folder: Path, epoch: int) -> Path:
    """Write an image as an OCI layout in a tar archive.

    `docker load` can also read the archive.
    """
    layers = layers[: image.layer_count]
    version = read_project()["project"]["version"]
    blobs: dict[str, bytes] = {}

    def add_blob(content: bytes, media_type: str) -> dict[str, Any]:
        digest = hashlib.sha256(content).hexdigest()
        blobs[f"blobs/sha256/{digest}"] = content
        return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(content)}

    packed_layers = [
        add_blob(_compress_layer(layer), f"{_MEDIA_TYPE}.layer.v1.tar+gzip") for layer in layers
    ]
    config = _build_image_config(image, version, [hash_file(layer) for layer in layers], epoch)
    config_blob = add_blob(_encode_json(config), f"{_MEDIA_TYPE}.config.v1+json")
    manifest_type = f"{_MEDIA_TYPE}.manifest.v1+json"
    manifest = {
        "schemaVersion": 2,
        "mediaType": manifest_type,
        "config": config_blob,
        "layers": packed_layers,
    }
    tag = f"{image.name}:{version}"
    manifest_reference = {
        **add_blob(_encode_json(manifest), manifest_type),
        "annotations": {
            "org.opencontainers.image.ref.name": version,
            # Without this annotation, Podman and containerd would name every image after the
            # release's version. Each image would then replace the one that was loaded before.
            "io.containerd.image.name": f"docker.io/library/{tag}",
        },
    }
    docker_manifest = {
        "Config": _get_blob_path(config_blob),
        "RepoTags": [tag],
        "Layers": [_get_blob_path(layer) for layer in packed_layers],
    }
    file_contents = {
        **blobs,
        "index.json": _encode_json({"schemaVersion": 2, "manifests": [manifest_reference]}),
        "manifest.json": _encode_json([docker_manifest]),
        "oci-layout": _encode_json({"imageLayoutVersion": "1.0.0"}),
    }
    image_path = folder / f"{image.name}-{version}-{ARCHITECTURE}.oci.tar"
    with tarfile.open(image_path, "w", format=tarfile.GNU_FORMAT) as archive:
        # If skopeo does not run as root, it cannot unpack an archive that lacks its folders.
        for folder_name in ("blobs", "blobs/sha256"):
            info = tarfile.TarInfo(folder_name)
            info.type = tarfile.DIRTYPE
            info.mtime = epoch
            info.mode = 0o755
            archive.addfile(info)
        for file_name in sorted(file_contents):
            info = tarfile.TarInfo(file_name)
            info.size = len(file_contents[file_name])
            info.mtime = epoch
            info.mode = 0o644
            archive.addfile(info, io.BytesIO(file_contents[file_name]))
    return image_path


@cache
def _compress_layer(layer: Path) -> bytes:
    """Compress a layer.

    The result is cached, because several images contain the layer.
    """
    return gzip.compress(layer.read_bytes(), compresslevel=6, mtime=0)


def _build_image_config(
    image: Image, version: str, diff_ids: Sequence[str], epoch: int
) -> dict[str, Any]:
    """Build the image configuration with user, command, health check and labels."""
    created_at = datetime.fromtimestamp(epoch, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    labels = {
        "created": created_at,
        "description": image.description,
        "licenses": "Apache-2.0",
        "revision": get_commit_hash(),
        "title": image.name,
        "version": version,
    }
    return {
        "architecture": ARCHITECTURE,
        "os": "linux",
        "created": created_at,
        "config": {
            "User": f"{USER}:{USER}",
            "Env": [f"{name}={value}" for name, value in ENVIRONMENT.items()],
            "Entrypoint": list(image.entrypoint),
            "Cmd": list(image.command),
            "WorkingDir": f"/{HOME}",
            "Volumes": {f"/{HOME}": {}},
            "ExposedPorts": {f"{image.port}/tcp": {}},
            "StopSignal": "SIGTERM",
            "Healthcheck": {"Test": ["CMD", "python3", "-c", image.health_check]},
            "Labels": {f"org.opencontainers.image.{key}": labels[key] for key in labels},
        },
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}" for digest in diff_ids]},
    }


def _get_blob_path(blob: dict[str, Any]) -> str:
    return str(blob["digest"]).replace("sha256:", "blobs/sha256/")


def _encode_json(value: object) -> bytes:
    return json.dumps(value, sort_keys=True).encode()


if __name__ == "__main__":
    main(sys.argv[1:])
