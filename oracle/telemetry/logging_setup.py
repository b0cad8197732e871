"""Log lines: readable on a terminal, JSON otherwise, and nothing secret in either.

Every line goes through `_redacted`: values under secret names are blacked out, and texts are
shown as `safe_text` shows them.
"""

import logging
import os
import re
import sys
from collections.abc import Mapping
from threading import Lock
from typing import TextIO, cast

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from oracle.telemetry.safe_text import BLACKED_OUT, without_secrets

_SECRET_NAME = re.compile(
    r"(?i)(password|passphrase|secret|private_?key|mnemonic|api_?key|authorization|(^|_)token($|_))"
)


def configure(form: str, level: str, stream: TextIO | None = None) -> None:
    """Send our lines and the libraries' warnings to `stream` (stderr) in one form.

    `form` is auto, json or text; `level` is debug, info, warning or error.
    """
    out = LogStream(stream or sys.stderr)
    readable = form == "text" or (form == "auto" and out.isatty())
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
        _redacted,
    ]
    structlog.configure(
        processors=[*shared, _renderer(readable=readable, colors=out.isatty())],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.WriteLoggerFactory(file=cast("TextIO", out)),
        cache_logger_on_first_use=False,
    )
    _configure_libraries(out, shared, readable=readable)


class LogStream:
    """A stream to which a line that cannot be written is lost, and counted, instead of raised.

    A daemon outlives a full disk under its log: the lines are for people, the work is not theirs.
    The next line that is written is preceded by one that says how many are missing. A pipe that
    nobody reads any more is still raised: there is no log any more, and no reader.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.lost = 0
        # Python's buffer would keep what failed, and fail with it once more at the end.
        self._file = _file_of(stream)
        self._lock = Lock()

    def isatty(self) -> bool:
        """Return whether a person reads along."""
        return self._stream.isatty()

    def write(self, text: str) -> int:
        """Write a line, or count it as lost."""
        with self._lock:
            try:
                if self.lost:
                    self._write(f"{self.lost} log lines were lost: they could not be written\n")
                    self.lost = 0
                self._write(text)
            except BrokenPipeError:
                raise
            except OSError:
                self.lost += 1
        return len(text)

    def flush(self) -> None:
        """Do nothing: every line is written at once."""

    def _write(self, text: str) -> None:
        if self._file is None:
            self._stream.write(text)
            self._stream.flush()
            return
        rest = memoryview(text.encode("utf-8", "backslashreplace"))
        while rest:
            rest = rest[os.write(self._file, rest) :]


def _file_of(stream: TextIO) -> int | None:
    """Return the number of the stream's file; None: it has none, as under a test."""
    try:
        stream.flush()
        return stream.fileno()
    except (OSError, ValueError, AttributeError):
        return None


def _configure_libraries(out: LogStream, shared: list[Processor], *, readable: bool) -> None:
    """Libraries speak stdlib logging: the same form, warnings and worse only."""
    plain_line = logging.StreamHandler(cast("TextIO", out))
    plain_line.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                _renderer(readable=readable, colors=out.isatty()),
            ],
        )
    )
    logging.basicConfig(level=logging.WARNING, handlers=[plain_line], force=True)


def _renderer(*, readable: bool, colors: bool) -> Processor:
    if not readable:
        return structlog.processors.JSONRenderer(default=str)
    return structlog.dev.ConsoleRenderer(colors=colors, pad_event_to=24)


def _redacted(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    return {key: _clean(key, value) for key, value in event.items()}


def _clean(key: str, value: object) -> object:
    if _SECRET_NAME.search(key):
        return BLACKED_OUT
    if isinstance(value, Mapping):
        return {inner: _clean(str(inner), kept) for inner, kept in value.items()}
    if isinstance(value, list | tuple):
        return [_clean(key, kept) for kept in value]
    return without_secrets(str(value)) if isinstance(value, str | BaseException) else value


def is_power_of_two(count: int) -> bool:
    """Tell the 1st, 2nd, 4th, 8th … of the same: what lasts all night fills no disk."""
    return count & (count - 1) == 0


class Repeating:
    """Warnings about endpoints; the 1st, 2nd, 4th, 8th … of the same in a row are told."""

    def __init__(self, event: str) -> None:
        self._event = event
        self._said: dict[str, tuple[str, int]] = {}

    def warn(self, endpoint: str, reason: str, instance: str | None = None) -> None:
        """Count the warning, and tell it if it is its turn; with an `instance` of it, if any."""
        before, count = self._said.get(endpoint, ("", 0))
        count = count + 1 if before == reason else 1
        self._said[endpoint] = reason, count
        if is_power_of_two(count):
            log = structlog.get_logger()
            facts = {} if instance is None else {"instance": instance}
            log.warning(self._event, endpoint=endpoint, reason=reason, in_a_row=count, **facts)
