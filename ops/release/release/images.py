"""Finds third-party container images without a digest, and pins them (`make images`).

A registry can change the image of a tag, but not the image of a digest. Docker's client requests
the digests from the registry, for which no daemon needs to run.
"""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from release.pins import ROOT

FILES = ("Dockerfile", "compose.yaml")
# Images named qos-oracle are built from this checkout, so this pattern excludes them.
_IMAGE = re.compile(r"^(?P<before>FROM +|\s+image: +)(?P<image>(?!qos-oracle)\S+)", re.MULTILINE)
_DIGEST = re.compile(r"@sha256:[0-9a-f]{64}$")


def iter_image_references(root: Path = ROOT) -> Iterator[tuple[str, str]]:
    """Yield each referenced image with the name of its file.

    Build stages are skipped.
    """
    for name in FILES:
        text = (root / name).read_text("utf-8")
        stage_names = set(re.findall(r"^FROM .+ AS (\S+)$", text, re.MULTILINE))
        for match in _IMAGE.finditer(text):
            if match["image"] not in stage_names:
                yield name, match["image"]


def list_unpinned_images(root: Path = ROOT) -> list[str]:
    """Return the referenced images that have no digest."""
    return sorted({image for _, image in iter_image_references(root) if not _DIGEST.search(image)})


def pin_images(root: Path = ROOT) -> list[str]:
    """Pin every tag to its current digest, and return tags without a digest."""
    tag_by_image = {image: _DIGEST.sub("", image) for _, image in iter_image_references(root)}
    digests = {tag: _fetch_digest(tag) for tag in sorted({*tag_by_image.values()})}

    def pin_reference(match: re.Match[str]) -> str:
        tag = tag_by_image.get(match["image"], "")
        digest = digests.get(tag, "")
        return f"{match['before']}{tag}@{digest}" if digest else match[0]

    for name in FILES:
        path = root / name
        path.write_text(_IMAGE.sub(pin_reference, path.read_text("utf-8")), "utf-8")
    return [tag for tag, digest in digests.items() if not digest]


def _fetch_digest(tag: str) -> str:
    """Fetch the digest of a tag's multi-platform index.

    The result is "" if the registry has none.
    """
    command = (
        "docker",
        "buildx",
        "imagetools",
        "inspect",
        "--format",
        "{{.Manifest.Digest}}",
        tag,
    )
    completed_process = subprocess.run(  # noqa: S603 - the image is one that our own files name
        command, capture_output=True, text=True, check=False
    )
    match = re.search(r"sha256:[0-9a-f]{64}", completed_process.stdout)
    return match[0] if match and completed_process.returncode == 0 else ""


if __name__ == "__main__":
    unpinned_tags = pin_images()
    for tag in unpinned_tags:
        sys.stderr.write(f"{tag}: the registry returned no digest\n")
    raise SystemExit(1 if unpinned_tags else 0)
