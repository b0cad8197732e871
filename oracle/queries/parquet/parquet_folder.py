"""A folder of Parquet files that is only ever added to, and never shows half a file.

`export.json` says how far it is; files from there on are of a run that did not end, or of blocks
that were not final, and are replaced. See docs/reference/parquet.md#the-folder.
"""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from oracle.domain.blocks import BlockRange
from oracle.errors import InputError
from oracle.queries.parquet.parquet_tables import SCHEMAS, ExportTable

MANIFEST = "export.json"
FORMAT = 1
# Rows that a reader skips or reads together, and that are in memory while they are written.
ROWS_AT_ONCE = 65_536
_DIGITS = 12
_SUFFIX = ".parquet"
_PART = ".part"


class ExportSource(msgspec.Struct, frozen=True):
    """Whose history it is: what must be the same in every run that adds to a folder."""

    chain_id: int
    genesis_hash: str
    start_block: int
    profile: str  # how logs were read
    rules_sha256: str  # of what folded the scores
    rebuilds: int  # how often everything was folded anew


class ExportManifest(msgspec.Struct):
    """How far an export is: `next` is the first block that is not in it for good.

    `last_log`: the newest block below `next` that has a log of ours, and its hash; to see that
    the chain is the same when more is added. `nodes_next`: nodes are in it up to the block before.
    """

    format: int
    source: ExportSource
    blocks_per_folder: int
    next: int
    nodes_next: int
    last_log: tuple[int, str] | None = None


@dataclass(frozen=True, slots=True)
class ParquetFolder:
    """An export on disk, opened by `of` to be added to, or by `existing` to be read."""

    path: Path
    manifest: ExportManifest

    @classmethod
    def of(cls, path: Path, source: ExportSource, blocks_per_folder: int) -> Self:
        """Open a folder, a new one where there is none; nothing is written yet.

        Raises:
            InputError: it holds something else, or another history; or cannot be read.
        """
        if (path / MANIFEST).exists():
            found = cls.existing(path)
            _check_source(path, found.manifest.source, source)
            return found
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            raise InputError(f"{path}: is no export, and not empty; name another folder")
        first = source.start_block
        return cls(path, ExportManifest(FORMAT, source, blocks_per_folder, first, first))

    @classmethod
    def existing(cls, path: Path) -> Self:
        """Open an export.

        Raises:
            InputError: there is none, or one of another format.
        """
        try:
            manifest = msgspec.json.decode((path / MANIFEST).read_bytes(), type=ExportManifest)
        except OSError as error:
            raise InputError(f"{path / MANIFEST}: {error.strerror}: no export") from None
        except msgspec.DecodeError as error:
            raise InputError(f"{path / MANIFEST}: {error}") from None
        if manifest.format != FORMAT:
            raise InputError(f"{path}: an export of format {manifest.format}, not {FORMAT}")
        return cls(path, manifest)

    def files(self, table: ExportTable, *, final: bool = True) -> list[Path]:
        """Return the files of a table in order of block; `final` leaves out what may change."""
        found = sorted((self.path / table).glob(f"*/*{_SUFFIX}"))
        return [one for one in found if not final or _first_of(one) < self.manifest.next]

    def begin(self) -> None:
        """Make it ours, and delete what a run left that did not end, or what was not final.

        Raises:
            OSError: as of the disk.
        """
        if not (self.path / MANIFEST).exists():
            self.save()
        for table in ExportTable:
            for path in self.files(table, final=False):
                if _first_of(path) >= self.manifest.next:
                    path.unlink()
            for path in (self.path / table).glob(f"*/.*{_PART}"):
                path.unlink()

    def cut(self, blocks: BlockRange) -> Iterator[BlockRange]:
        """Cut blocks so that no range crosses the border of a folder."""
        size, first = self.manifest.blocks_per_folder, blocks.first
        while first <= blocks.last:
            last = min(first - first % size + size - 1, blocks.last)
            yield BlockRange(first, last)
            first = last + 1

    def write(
        self, table: ExportTable, blocks: BlockRange, batches: Iterable[pa.RecordBatch]
    ) -> int:
        """Write a table's rows of these blocks, which do not cross a border; return how many.

        No file where there is no row, but one of a table at least: else no reader knows it.

        Raises:
            OSError: as of the disk; nothing is left.
        """
        path = self._file(table, blocks)
        rows = iter(batches)
        first = next(rows, None)
        if first is None and self.files(table, final=False):
            return 0
        path.parent.mkdir(parents=True, exist_ok=True)
        written = 0
        with _whole(path) as part, pq.ParquetWriter(part, SCHEMAS[table], **_STYLE) as writer:
            batch = first
            while batch is not None:
                writer.write_batch(batch)
                written += batch.num_rows
                batch = next(rows, None)
        return written

    def save(self) -> None:
        """Write down how far it is; what was written before is good from now on."""
        self.path.mkdir(parents=True, exist_ok=True)
        with _whole(self.path / MANIFEST) as part:
            part.write_bytes(msgspec.json.format(msgspec.json.encode(self.manifest)) + b"\n")

    def _file(self, table: ExportTable, blocks: BlockRange) -> Path:
        begin = blocks.first - blocks.first % self.manifest.blocks_per_folder
        name = f"{blocks.first:0{_DIGITS}}-{blocks.last:0{_DIGITS}}{_SUFFIX}"
        return self.path / table / f"from_block={begin:0{_DIGITS}}" / name


# Hashes are all different: a dictionary of them would be written in vain, and given up late.
_STYLE = {"compression": "zstd", "compression_level": 3, "dictionary_pagesize_limit": 1 << 18}


def _first_of(path: Path) -> int:
    """Return the first block of a file, by its name."""
    first = path.name.partition("-")[0]
    if not first.isdecimal():
        raise InputError(f"{path}: is no file of an export; put it elsewhere")
    return int(first)


def _check_source(path: Path, known: ExportSource, ours: ExportSource) -> None:
    for name in ExportSource.__struct_fields__:
        before, now = getattr(known, name), getattr(ours, name)
        if before != now:
            raise InputError(
                f"{path}: was exported with {name} {before}, and it is {now} now: "
                "export into another folder, or remove this one"
            )


@contextmanager
def _whole(path: Path) -> Iterator[Path]:
    """Write beside a place, and put it there when it is whole and on the disk."""
    part = path.with_name(f".{path.name}.{os.getpid()}{_PART}")
    try:
        yield part
        with part.open("rb") as written:
            os.fsync(written.fileno())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
    if os.name == "posix":
        _sync_folder(path.parent)


def _sync_folder(path: Path) -> None:
    """The new name survives a loss of power, too."""
    folder = os.open(path, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
