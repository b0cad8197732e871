"""Lays the evidence of kickouts down for everybody to check: one file, named by its hash."""

import os
from pathlib import Path

from oracle.domain.evidence import Evidence
from oracle.errors import InputError


def export(folder: Path, evidence: Evidence) -> Path:
    """Write the file and make sure that it is on the disk; the same evidence is written once.

    Raises:
        InputError: the folder cannot be written.
    """
    path = folder / f"{evidence.hash}.json"
    if path.exists():
        return path
    draft = path.with_suffix(".draft")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with draft.open("w", encoding="utf-8") as file:
            file.write(evidence.text)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except OSError as error:
        raise InputError(f"{folder}: the evidence cannot be written: {error.strerror}") from error
    return path
