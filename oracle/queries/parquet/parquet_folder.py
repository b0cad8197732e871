"""An export folder, to which Parquet files are added atomically.

`export.json` records the progress of the export. Files with blocks above this progress belong to
an unfinished run or to blocks that were not final, and are replaced. See
docs/reference/parquet.md#the-folder.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from oracle.domain.blocks import BlockRange
from oracle.durable_files import PART_SUFFIX, replace_file
from oracle.errors import InputError
from oracle.queries.parquet.parquet_tables import SCHEMAS, ExportTable

MANIFEST = "export.json"
FORMAT = 1
# Number of rows per row group. A reader reads or skips a row group as a whole, and a writer holds
# it in memory.
ROWS_PER_GROUP = 65_536
_BLOCK_DIGITS = 12
_SUFFIX = ".parquet"


class ExportSource(msgspec.Struct, frozen=True):
    """The identity of an exported history, which never changes within a folder."""

    chain_id: int
    genesis_hash: str
    start_block: int
    profile: str  # how logs were decoded
    rules_sha256: str  # the rules by which scores were folded
    rebuilds: int  # how often everything had been folded again


class ExportManifest(msgspec.Struct):
    """The saved progress of an export.

    `next` is the first block without permanent rows. `last_log` is the newest block below `next`
    that has an indexed log, with its hash, so that the next run detects a different chain.
    `nodes_next` is the first block whose nodes are not in the export.
    """

    format: int
    source: ExportSource
    blocks_per_folder: int
    next: int
    nodes_next: int
    last_log: tuple[int, str] | None = None


@dataclass(frozen=True, slots=True)
class ParquetFolder:
    """An export on disk, opened to append (`open_for_append`) or read (`open_existing`)."""

    path: Path
    manifest: ExportManifest

    @classmethod
    def open_for_append(cls, path: Path, source: ExportSource, blocks_per_folder: int) -> Self:
        """Open an export, or prepare a new one in an empty folder.

        Nothing is written yet.

        Raises:
            InputError: the folder has other content or another history, or cannot be read.
        """
        if (path / MANIFEST).exists():
            folder = cls.open_existing(path)
            _check_source(path, folder.manifest.source, source)
            return folder
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            raise InputError(
                f"{path}: the path is neither an export nor an empty folder; choose another folder"
            )
        start_block = source.start_block
        return cls(
            path, ExportManifest(FORMAT, source, blocks_per_folder, start_block, start_block)
        )

    @classmethod
    def open_existing(cls, path: Path) -> Self:
        """Open an existing export.

        Raises:
            InputError: there is no export, or the export has another format.
        """
        try:
            manifest = msgspec.json.decode((path / MANIFEST).read_bytes(), type=ExportManifest)
        except OSError as error:
            raise InputError(
                f"{path}: the folder is not an export; {MANIFEST}: {error.strerror}"
            ) from None
        except msgspec.DecodeError as error:
            raise InputError(f"{path / MANIFEST}: {error}") from None
        if manifest.format != FORMAT:
            raise InputError(
                f"{path}: the export has format {manifest.format}; expected format {FORMAT}"
            )
        return cls(path, manifest)

    def list_files(self, table: ExportTable, *, only_final: bool = True) -> list[Path]:
        """Return the files of a table in block order, by default only files of final blocks."""
        paths = sorted((self.path / table).glob(f"*/*{_SUFFIX}"))
        return [
            path
            for path in paths
            if not only_final or _parse_first_block(path) < self.manifest.next
        ]

    def prepare_export_run(self) -> None:
        """Write a first manifest, and delete files of unfinished runs or non-final blocks.

        Raises:
            OSError: a file cannot be written or deleted.
        """
        if not (self.path / MANIFEST).exists():
            self.save_manifest()
        for table in ExportTable:
            for path in self.list_files(table, only_final=False):
                if _parse_first_block(path) >= self.manifest.next:
                    path.unlink()
            for path in (self.path / table).glob(f"*/.*{PART_SUFFIX}"):
                path.unlink()

    def split_block_range(self, blocks: BlockRange) -> Iterator[BlockRange]:
        """Split a range of blocks so that each part lies in one partition folder."""
        size, first = self.manifest.blocks_per_folder, blocks.first
        while first <= blocks.last:
            last = min(first - first % size + size - 1, blocks.last)
            yield BlockRange(first, last)
            first = last + 1

    def write_table(
        self, table: ExportTable, blocks: BlockRange, batches: Iterable[pa.RecordBatch]
    ) -> int:
        """Write the rows of a table for these blocks, and return their number.

        The blocks must lie within one partition folder. If there are no rows, a file is written
        only if the table has no file yet, because readers need a file for the schema.

        Raises:
            OSError: a disk error occurred; no partial file is left.
        """
        path = self._build_path(table, blocks)
        batch_iterator = iter(batches)
        first_batch = next(batch_iterator, None)
        if first_batch is None and self.list_files(table, only_final=False):
            return 0
        path.parent.mkdir(parents=True, exist_ok=True)
        row_count = 0
        with (
            replace_file(path) as temporary_path,
            pq.ParquetWriter(temporary_path, SCHEMAS[table], **_WRITER_OPTIONS) as writer,
        ):
            batch = first_batch
            while batch is not None:
                writer.write_batch(batch)
                row_count += batch.num_rows
                batch = next(batch_iterator, None)
        return row_count

    def save_manifest(self) -> None:
        """Write the manifest, which adds the files written so far to the export."""
        self.path.mkdir(parents=True, exist_ok=True)
        with replace_file(self.path / MANIFEST) as temporary_path:
            temporary_path.write_bytes(
                msgspec.json.format(msgspec.json.encode(self.manifest)) + b"\n"
            )

    def _build_path(self, table: ExportTable, blocks: BlockRange) -> Path:
        partition_start = blocks.first - blocks.first % self.manifest.blocks_per_folder
        file_name = f"{blocks.first:0{_BLOCK_DIGITS}}-{blocks.last:0{_BLOCK_DIGITS}}{_SUFFIX}"
        return self.path / table / f"from_block={partition_start:0{_BLOCK_DIGITS}}" / file_name


# Hashes are all different, so a dictionary of them is useless. The small limit makes the writer
# notice this early.
_WRITER_OPTIONS = {
    "compression": "zstd",
    "compression_level": 3,
    "dictionary_pagesize_limit": 1 << 18,
}


def _parse_first_block(path: Path) -> int:
    """Parse the number of a file's first block from the file name."""
    digits = path.name.partition("-")[0]
    if not digits.isdecimal():
        raise InputError(f"{path}: this file is not part of an export; move it elsewhere")
    return int(digits)


def _check_source(path: Path, exported_source: ExportSource, current_source: ExportSource) -> None:
    for name in ExportSource.__struct_fields__:
        old_value = getattr(exported_source, name)
        new_value = getattr(current_source, name)
        if old_value != new_value:
            raise InputError(
                f"{path}: the export was made with {name} {old_value}, but the database has "
                f"{new_value}; export into another folder, or remove this one"
            )
