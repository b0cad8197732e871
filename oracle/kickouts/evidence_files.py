"""Publishes the evidence of kickouts: one file for each due interval of a node."""

import os
from pathlib import Path

from oracle.domain.ids import Address
from oracle.domain.reports.kickout_evidence import KickoutEvidence
from oracle.errors import InputError


def export_evidence(
    folder: Path, node: Address, due_since: int, evidence: KickoutEvidence
) -> Path:
    """Write and fsync the evidence file, unless an intact file exists.

    Raises:
        InputError: the folder cannot be written.
    """
    path = build_evidence_path(folder, node, due_since)
    try:
        if _is_intact(path, evidence):
            return path
        draft = path.with_suffix(".draft")
        folder.mkdir(parents=True, exist_ok=True)
        with draft.open("w", encoding="utf-8") as file:
            file.write(evidence.text)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
        _fsync_folder(folder)
    except OSError as error:
        raise InputError(f"{folder}: cannot write the evidence file: {error.strerror}") from error
    return path


def build_evidence_path(folder: Path, node: Address, due_since: int) -> Path:
    """Return the path of the evidence for the interval that began at `due_since`, block time."""
    return folder / f"{node}-{due_since}.json"


def _is_intact(path: Path, evidence: KickoutEvidence) -> bool:
    """Return whether the file exists and is complete; a disk failure may have truncated it."""
    return path.exists() and path.read_bytes() == evidence.text.encode()


def _fsync_folder(folder: Path) -> None:
    """Fsync the folder, so that the file's name is on disk too."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
