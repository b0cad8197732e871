"""Log lines: readable on a terminal, JSON otherwise, and nothing secret in either.

Every line goes through `_redacted`: values under secret names are blacked out, and texts are
shown as `safe_text` shows them.
"""

import logging
import re
import sys
from collections.abc import Mapping
from typing import TextIO

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
    out = stream or sys.stderr
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
        logger_factory=structlog.WriteLoggerFactory(file=out),
        cache_logger_on_first_use=False,
    )
    _configure_libraries(out, shared, readable=readable)


def _configure_libraries(out: TextIO, shared: list[Processor], *, readable: bool) -> None:
    """Libraries speak stdlib logging: the same form, warnings and worse only."""
    plain_line = logging.StreamHandler(out)
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
