"""Reads the result hashes that the operator's storage delivers to the dispatcher.

The chain has the answers of the nodes, but never their results. An answer is bound to its group,
so that it cannot be copied into another group. See docs/explanation/dispatch.md#results.
"""

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from oracle.domain.ids import Hash, TaskKey
from oracle.errors import InputError
from oracle.telemetry.logger import get_logger

_HASH = re.compile(r"0x[0-9a-f]{64}")
# Maximum size of a file. A larger file cannot be a hash with a trailing newline.
_MAX_BYTES = 80


class ResultsFolder:
    """A folder of files, each named after a task and holding the hash of the task's result.

    The files are not trusted, so a result counts only if its hash matches the verdict on chain.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        # The last fault of each file, so that a faulty file is logged only once until it has been
        # read successfully.
        self._logged_reason_by_path: dict[Path, str] = {}

    @classmethod
    def open_folder(cls, path: Path) -> "ResultsFolder":
        """Return the folder after checking that it is readable.

        Raises:
            InputError: the folder is missing, not a folder, or unreadable.
        """
        setting_text = f"dispatch.results_folder: {path}"
        if not path.is_dir():
            raise InputError(f"{setting_text}: no such folder; create it, or remove the setting")
        if not os.access(path, os.R_OK | os.X_OK):
            raise InputError(f"{setting_text}: permission denied; let the daemon's user read it")
        return cls(path)

    def read_results(self, tasks: Iterable[TaskKey]) -> Iterator[Hash]:
        """Yield the result hash of each task that has a valid file."""
        for task in tasks:
            result = self._read_result(self._path / task)
            if result is not None:
                yield result

    def _read_result(self, path: Path) -> Hash | None:
        try:
            with path.open("rb") as stream:
                result_text = stream.read(_MAX_BYTES).decode("ascii", "replace").strip().lower()
        except FileNotFoundError:
            return None
        except OSError as error:
            self._log_unreadable_result(path, error.strerror or "cannot be read")
            return None
        if _HASH.fullmatch(result_text) is None:
            self._log_unreadable_result(path, "expected a hash: 0x and 64 hex digits")
            return None
        self._logged_reason_by_path.pop(path, None)
        return Hash(result_text)

    def _log_unreadable_result(self, path: Path, reason: str) -> None:
        if self._logged_reason_by_path.get(path) == reason:
            return
        self._logged_reason_by_path[path] = reason
        get_logger().warning("result_file_unreadable", file=str(path), reason=reason)
