"""Publishes the evidence of kickouts, one file for each interval in which a kickout is due."""

from pathlib import Path

from oracle.domain.ids import Address
from oracle.durable_files import replace_file
from oracle.errors import InputError


def export_evidence(folder: Path, node: Address, due_since: int, evidence: str) -> Path:
    """Write and fsync a kickout's evidence file, unless an intact file exists.

    Raises:
        InputError: the folder cannot be written.
    """
    path = build_evidence_path(folder, node, due_since)
    try:
        if _is_evidence_file_intact(path, evidence):
            return path
        folder.mkdir(parents=True, exist_ok=True)
        with replace_file(path) as temporary_path:
            temporary_path.write_text(evidence, encoding="utf-8")
    except OSError as error:
        raise InputError(f"{folder}: cannot write the evidence file: {error.strerror}") from error
    return path


def build_evidence_path(folder: Path, node: Address, due_since: int) -> Path:
    """Return the path of the evidence file for the interval that starts at `due_since`.

    `due_since` is a block time.
    """
    return folder / f"{node}-{due_since}.json"


def _is_evidence_file_intact(path: Path, evidence: str) -> bool:
    """Return whether an intact evidence file exists.

    A disk failure may truncate the file.
    """
    return path.exists() and path.read_bytes() == evidence.encode()
