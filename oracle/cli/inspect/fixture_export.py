"""Implements `export --fixture`, which records blocks to a file for deterministic replay.

Blocks are appended in chunks to a temporary file, which is renamed when it is complete. A second
run resumes an interrupted export.
"""

import gzip
import json
import os
import shutil
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from oracle.chain.fetch.block_recorder import fetch_fixture_lines
from oracle.chain.source import ChainSource
from oracle.domain.blocks import BlockRange
from oracle.errors import InputError, TransientError
from oracle.queries.command_models import FixtureAnswer

_SUFFIXES = (".jsonl", ".jsonl.gz")


class _ExportProgress(msgspec.Struct):
    """The valid size of the temporary file in bytes, and the blocks that it is meant for."""

    first: int
    last: int
    next: int
    size: int
    lines: int
    # The hash of the last block written, or empty if there is none.
    hash: str = ""


def export_fixture(
    chain: ChainSource, path: Path, blocks: BlockRange, report_progress: Callable[[int, int], None]
) -> FixtureAnswer:
    """Record blocks to `path`, whose name ends in .jsonl or .jsonl.gz.

    Raises:
        InputError: the name has another suffix, the file exists, or it cannot be written.
        TransientError: no endpoint responds, or a reorg removed a recorded block, so the export
            has to be run again.
    """
    if not path.name.endswith(_SUFFIXES):
        raise InputError(f"--fixture {path}: the name must end in .jsonl or .jsonl.gz")
    if path.exists():
        raise InputError(
            f"--fixture {path}: the file already exists; choose another one, or remove it"
        )
    part_path = path.with_name(f"{path.name}.part")
    progress_path = path.with_name(f"{path.name}.part.json")
    try:
        export_progress = _load_export_progress(progress_path, part_path, blocks)
        resumed_at = None if export_progress is None else export_progress.next
        if export_progress is None:
            export_progress = _start_export(chain, part_path, progress_path, blocks)
        _write_blocks(chain, part_path, progress_path, export_progress, report_progress)
        _finalize_fixture_file(part_path, path)
        progress_path.unlink()
    except OSError as error:
        raise InputError(f"--fixture {path}: {error.strerror or error}") from None
    return FixtureAnswer(
        dry_run=False,
        file=str(path),
        first=blocks.first,
        last=blocks.last,
        lines=export_progress.lines,
        resumed_at=resumed_at,
    )


def _load_export_progress(
    progress_path: Path, part_path: Path, blocks: BlockRange
) -> _ExportProgress | None:
    if not progress_path.exists() or not part_path.exists():
        return None
    export_progress = msgspec.json.decode(progress_path.read_bytes(), type=_ExportProgress)
    if (export_progress.first, export_progress.last) == (blocks.first, blocks.last):
        return export_progress
    return None


def _start_export(
    chain: ChainSource, part_path: Path, progress_path: Path, blocks: BlockRange
) -> _ExportProgress:
    chain_line = {"kind": "chain", "chainId": hex(chain.get_chain_id())}
    export_progress = _ExportProgress(blocks.first, blocks.last, blocks.first, 0, 0)
    part_path.write_bytes(b"")
    _append_lines(part_path, progress_path, export_progress, [chain_line])
    return export_progress


def _write_blocks(
    chain: ChainSource,
    part_path: Path,
    progress_path: Path,
    file_state: _ExportProgress,
    report_progress: Callable[[int, int], None],
) -> None:
    os.truncate(part_path, file_state.size)
    while file_state.next <= file_state.last:
        last_block, lines = chain.fetch_window_and_query(
            BlockRange(file_state.next, file_state.last), fetch_fixture_lines
        )
        block_lines = [line for line in lines if line["kind"] == "block"]
        if file_state.hash and block_lines[0]["parentHash"] != file_state.hash:
            progress_path.unlink()
            raise TransientError(
                f"--fixture: the recorded block {file_state.next - 1} is no longer on the chain; "
                "run the command again to start over"
            )
        file_state.next = last_block + 1
        file_state.hash = block_lines[-1]["hash"]
        _append_lines(part_path, progress_path, file_state, lines)
        report_progress(last_block, file_state.last)


def _append_lines(
    part_path: Path,
    progress_path: Path,
    file_state: _ExportProgress,
    lines: Iterable[Mapping[str, Any]],
) -> None:
    """Append lines to the file, flush it to disk, and store the new progress."""
    json_lines = [json.dumps(line, separators=(",", ":")) + "\n" for line in lines]
    with part_path.open("a", encoding="utf-8") as file:
        file.writelines(json_lines)
        file.flush()
        os.fsync(file.fileno())
        file_state.size = file.tell()
    file_state.lines += len(json_lines)
    temporary_path = progress_path.with_name(f"{progress_path.name}.new")
    temporary_path.write_bytes(msgspec.json.encode(file_state))
    temporary_path.replace(progress_path)


def _finalize_fixture_file(part_path: Path, path: Path) -> None:
    if path.suffix != ".gz":
        part_path.replace(path)
        return
    packed_path = path.with_name(f"{path.name}.packed")
    # The gzip header has no timestamp, so that equal blocks produce equal bytes.
    with (
        part_path.open("rb") as part_file,
        packed_path.open("wb") as file,
        gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0) as gzip_file,
    ):
        shutil.copyfileobj(part_file, gzip_file)
    packed_path.replace(path)
    part_path.unlink()
