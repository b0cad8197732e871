"""`export --fixture`: records blocks from the endpoints in a file for deterministic replay.

Blocks are appended chunk by chunk to a temporary file; a second run resumes an interrupted one,
and the complete file is renamed to its path.
"""

import gzip
import json
import os
import shutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from oracle.chain.fetch.block_recorder import recorded
from oracle.chain.source import ChainSource
from oracle.domain.blocks import BlockRange
from oracle.errors import InputError, TransientError

_SUFFIXES = (".jsonl", ".jsonl.gz")


@dataclass(frozen=True, slots=True)
class FixtureExport:
    """The result of an export; `resumed_at` is the block where it resumed, or None."""

    path: Path
    blocks: BlockRange
    lines: int
    resumed_at: int | None


class _ExportProgress(msgspec.Struct):
    """The valid size of the temporary file, and the blocks for which it was created."""

    first: int
    last: int
    next: int
    size: int
    lines: int
    # Hash of the last block written; empty if there is none.
    hash: str = ""


def record(
    chain: ChainSource, path: Path, blocks: BlockRange, progress: Callable[[int, int], None]
) -> FixtureExport:
    """Record blocks into `path`, whose name ends in .jsonl or .jsonl.gz.

    Raises:
        InputError: the name has another suffix, the file exists, or it cannot be written.
        TransientError: no endpoint responds, or a recorded block was reorganised away; run the
            export again.
    """
    if not path.name.endswith(_SUFFIXES):
        raise InputError(f"--fixture {path}: must end in .jsonl or .jsonl.gz")
    if path.exists():
        raise InputError(f"--fixture {path}: is there already; name another file, or remove it")
    part, note = path.with_name(f"{path.name}.part"), path.with_name(f"{path.name}.part.json")
    try:
        place = _resumed(note, part, blocks)
        resumed_at = None if place is None else place.next
        if place is None:
            place = _begun(chain, part, note, blocks)
        _written(chain, part, note, place, progress)
        _finished(part, path)
        note.unlink()
    except OSError as error:
        raise InputError(f"--fixture {path}: {error.strerror or error}") from None
    return FixtureExport(path, blocks, place.lines, resumed_at)


def _resumed(note: Path, part: Path, blocks: BlockRange) -> _ExportProgress | None:
    if not note.exists() or not part.exists():
        return None
    place = msgspec.json.decode(note.read_bytes(), type=_ExportProgress)
    return place if (place.first, place.last) == (blocks.first, blocks.last) else None


def _begun(chain: ChainSource, part: Path, note: Path, blocks: BlockRange) -> _ExportProgress:
    line = {"kind": "chain", "chainId": hex(chain.chain_id())}
    place = _ExportProgress(blocks.first, blocks.last, blocks.first, 0, 0)
    part.write_bytes(b"")
    _append(part, note, place, [line])
    return place


def _written(
    chain: ChainSource,
    part: Path,
    note: Path,
    place: _ExportProgress,
    progress: Callable[[int, int], None],
) -> None:
    os.truncate(part, place.size)
    while place.next <= place.last:
        reached, lines = chain.with_window(BlockRange(place.next, place.last), recorded)
        blocks = [line for line in lines if line["kind"] == "block"]
        if place.hash and blocks[0]["parentHash"] != place.hash:
            note.unlink()
            words = f"the chain left block {place.next - 1}, which was recorded: run it again"
            raise TransientError(f"--fixture: {words}, it begins anew")
        place.next, place.hash = reached + 1, blocks[-1]["hash"]
        _append(part, note, place, lines)
        progress(reached, place.last)


def _append(
    part: Path, note: Path, place: _ExportProgress, lines: Iterable[Mapping[str, Any]]
) -> None:
    """Append lines and fsync them, then store the new progress."""
    text = [json.dumps(line, separators=(",", ":")) + "\n" for line in lines]
    with part.open("a", encoding="utf-8") as file:
        file.writelines(text)
        file.flush()
        os.fsync(file.fileno())
        place.size = file.tell()
    place.lines += len(text)
    fresh = note.with_name(f"{note.name}.new")
    fresh.write_bytes(msgspec.json.encode(place))
    fresh.replace(note)


def _finished(part: Path, path: Path) -> None:
    if path.suffix != ".gz":
        part.replace(path)
        return
    packed = path.with_name(f"{path.name}.packed")
    # Without a timestamp in the gzip header, equal blocks produce equal bytes.
    with (
        part.open("rb") as whole,
        packed.open("wb") as file,
        gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0) as zipped,
    ):
        shutil.copyfileobj(whole, zipped)
    packed.replace(path)
    part.unlink()
