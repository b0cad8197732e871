"""Log output: readable on a terminal, JSON otherwise, without secrets in either.

Every line passes `_redact_event`: values under secret names are replaced, and texts are shown as
in `safe_text`.
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
    """Send the daemon's log lines and the libraries' warnings to `stream` (stderr).

    `log_format` is auto, json or text; `level` is debug, info, warning or error.
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
    """A log stream that counts lines that cannot be written instead of raising an error.

    The daemon survives a full disk under its log, because its work does not depend on it. The next
    written line is preceded by the number of lost lines. A broken pipe still raises, because
    nothing can read the log any more.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.lost = 0
        # Python's buffer would keep a failed line, and fail with it again at exit.
        self._file = _file_of(stream)
        self._lock = Lock()

    def isatty(self) -> bool:
        """Return whether the stream is a terminal."""
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
        """Do nothing, because every line is written at once."""

    def _write(self, text: str) -> None:
        if self._file is None:
            self._stream.write(text)
            self._stream.flush()
            return
        rest = memoryview(text.encode("utf-8", "backslashreplace"))
        while rest:
            rest = rest[os.write(self._file, rest) :]


def _file_of(stream: TextIO) -> int | None:
    """Return the stream's file descriptor, or None if it has none, as in tests."""
    try:
        stream.flush()
        return stream.fileno()
    except (OSError, ValueError, AttributeError):
        return None


def _configure_libraries(out: LogStream, shared: list[Processor], *, readable: bool) -> None:
    """Format the libraries' stdlib logging the same way; warnings and errors only."""
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
    """Return whether to report this repetition: the 1st, 2nd, 4th, 8th and so on.

    The log stays small even if a fault repeats all night.
    """
    return count & (count - 1) == 0


class Repeating:
    """Logs the 1st, 2nd, 4th, 8th and so on of a repeated warning about an endpoint."""

    def __init__(self, event: str) -> None:
        self._event = event
        self._said: dict[str, tuple[str, int]] = {}

    def warn(self, endpoint: str, reason: str, instance: str | None = None) -> None:
        """Count the warning, and log it if it is due, with an example `instance` if given."""
        before, count = self._said.get(endpoint, ("", 0))
        count = count + 1 if before == reason else 1
        self._said[endpoint] = reason, count
        if is_power_of_two(count):
            log = structlog.get_logger()
            facts = {} if instance is None else {"instance": instance}
            log.warning(self._event, endpoint=endpoint, reason=reason, in_a_row=count, **facts)
