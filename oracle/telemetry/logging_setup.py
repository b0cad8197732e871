"""Writes the log without secrets, as readable text on a terminal and as JSON otherwise.

Every line passes through `_redact_event`, which replaces the value of a field whose name means a
secret, and redacts all other texts by `safe_text`.
"""

import logging
import os
import re
import sys
from collections.abc import Mapping
from threading import Lock
from typing import TextIO, cast

from oracle.telemetry.logger import get_logger, import_structlog_without_rich
from oracle.telemetry.safe_text import REDACTED, redact_secrets

import_structlog_without_rich()

import structlog  # noqa: E402  rich must not be imported with it
from structlog.typing import EventDict, Processor, WrappedLogger  # noqa: E402

_SECRET_NAME = re.compile(
    r"(?i)(password|passphrase|secret|private_?key|mnemonic|api_?key|authorization|(^|_)token($|_))"
)


def configure_logging(log_format: str, level: str, stream: TextIO | None = None) -> None:
    """Send the daemon's log and the libraries' warnings to `stream`, by default to stderr.

    `log_format` is auto, json or text; `level` is debug, info, warning or error.
    """
    log_stream = LogStream(stream or sys.stderr)
    is_readable = log_format == "text" or (log_format == "auto" and log_stream.isatty())
    shared_processors: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
        _redact_event,
    ]
    structlog.configure(
        processors=[
            *shared_processors,
            _build_renderer(is_readable=is_readable, use_colors=log_stream.isatty()),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.WriteLoggerFactory(file=cast("TextIO", log_stream)),
        cache_logger_on_first_use=False,
    )
    _configure_library_logging(log_stream, shared_processors, is_readable=is_readable)


class LogStream:
    """A log stream that counts lines it cannot write instead of raising an error.

    The daemon continues if the disk of its log is full, because its work does not depend on the
    log. The next line that can be written is preceded by the number of lost lines. A broken pipe
    still raises an error, because nothing can read the log then.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.lost_line_count = 0
        # Lines are written without Python's buffer. The buffer would keep a line that failed, and
        # writing it would fail again at exit.
        self._file_descriptor = _get_file_descriptor(stream)
        self._lock = Lock()

    def isatty(self) -> bool:
        """Return whether the stream is a terminal."""
        return self._stream.isatty()

    def write(self, text: str) -> int:
        """Write a line, or count it as lost if writing fails."""
        with self._lock:
            try:
                if self.lost_line_count:
                    self._write_unbuffered(
                        f"{self.lost_line_count} log lines were lost: they could not be written\n"
                    )
                    self.lost_line_count = 0
                self._write_unbuffered(text)
            except BrokenPipeError:
                raise
            except OSError:
                self.lost_line_count += 1
        return len(text)

    def flush(self) -> None:
        """Do nothing, because every line is written immediately."""

    def _write_unbuffered(self, text: str) -> None:
        if self._file_descriptor is None:
            self._stream.write(text)
            self._stream.flush()
            return
        remaining_bytes = memoryview(text.encode("utf-8", "backslashreplace"))
        while remaining_bytes:
            remaining_bytes = remaining_bytes[os.write(self._file_descriptor, remaining_bytes) :]


def _get_file_descriptor(stream: TextIO) -> int | None:
    """Return the stream's file descriptor, or None if it has none."""
    try:
        stream.flush()
        return stream.fileno()
    except (OSError, ValueError, AttributeError):
        return None


def _configure_library_logging(
    log_stream: LogStream, shared_processors: list[Processor], *, is_readable: bool
) -> None:
    """Log the warnings and errors of libraries in the same format.

    Libraries use stdlib logging.
    """
    handler = logging.StreamHandler(cast("TextIO", log_stream))
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared_processors,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                _build_renderer(is_readable=is_readable, use_colors=log_stream.isatty()),
            ],
        )
    )
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    # If the pool cannot clean up a lost connection, it logs a traceback. The traceback adds
    # nothing, because the caller reports the error of the failed statement.
    pool_logger = logging.getLogger("sqlalchemy.pool")  # noqa: TID251 - a library's logger
    pool_logger.setLevel(logging.CRITICAL)


def _build_renderer(*, is_readable: bool, use_colors: bool) -> Processor:
    if not is_readable:
        return structlog.processors.JSONRenderer(default=str)
    return structlog.dev.ConsoleRenderer(colors=use_colors, pad_event_to=24)


def _redact_event(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    return {key: _redact_value(key, value) for key, value in event.items()}


def _redact_value(key: str, value: object) -> object:
    if _SECRET_NAME.search(key):
        return REDACTED
    if isinstance(value, Mapping):
        return {
            inner_key: _redact_value(str(inner_key), inner_value)
            for inner_key, inner_value in value.items()
        }
    if isinstance(value, list | tuple):
        return [_redact_value(key, inner_value) for inner_value in value]
    return redact_secrets(str(value)) if isinstance(value, str | BaseException) else value


def is_power_of_two(count: int) -> bool:
    """Return whether `count` is a power of two.

    A repeated fault is logged only at these counts, so that the log stays small if the fault
    persists.
    """
    return count & (count - 1) == 0


class RepeatedWarning:
    """Logs only the 1st, 2nd, 4th, 8th, … occurrence of a repeated warning about an endpoint."""

    def __init__(self, event: str) -> None:
        self._event = event
        self._last_warning_by_endpoint: dict[str, tuple[str, int]] = {}

    def warn(self, endpoint: str, reason: str, instance: str | None = None) -> None:
        """Count the warning, and log it if it is due.

        `instance` is an example for the log line. The count restarts if the reason differs from
        the endpoint's previous warning.
        """
        last_reason, repeat_count = self._last_warning_by_endpoint.get(endpoint, ("", 0))
        repeat_count = repeat_count + 1 if last_reason == reason else 1
        self._last_warning_by_endpoint[endpoint] = reason, repeat_count
        if is_power_of_two(repeat_count):
            logger = get_logger()
            extra_fields = {} if instance is None else {"instance": instance}
            logger.warning(
                self._event,
                endpoint=endpoint,
                reason=reason,
                in_a_row=repeat_count,
                **extra_fields,
            )
