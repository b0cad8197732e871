"""Sends notices by mail, Slack, Telegram, Discord and other services through Apprise.

Apprise is an optional package (extra `notify`).
"""

import importlib
import logging
import re
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from oracle.errors import InputError
from oracle.notify.target import Message, NotDeliveredError, NoticeFilter
from oracle.resources import format_install_command
from oracle.telemetry.safe_text import REDACTED, register_secret

# Minimum length of a part of a URL that is redacted. Most shorter parts are ordinary words.
_MIN_REDACTED_LENGTH = 8
_MAIL_ADDRESS = re.compile(r"[^\s<>'\"]+@[^\s<>'\"]+")


class AppriseTarget:
    """A target with an Apprise URL, which is never shown because it may contain a token."""

    def __init__(
        self, name: str, notice_filter: NoticeFilter, url: str, recipient: str | None = None
    ) -> None:
        """Create the target; raise InputError if Apprise is missing or rejects the URL.

        `recipient` is a mail address that replaces the recipient in the URL of a mail server.
        """
        self.name = name
        self.notice_filter = notice_filter
        # Some services expect a token in place of the host name. Every part is therefore redacted.
        for url_part in [url, *re.split(r"[/:@?&=]", url)]:
            if len(url_part) >= _MIN_REDACTED_LENGTH:
                register_secret(url_part)
        self._apprise = _import_apprise(name).Apprise()
        if recipient is not None:
            # The recipient is not redacted. Otherwise a node owner could subscribe with a common
            # word as the address, and this word would be redacted in every log line.
            url_parts = urlsplit(url)
            fields = [field for field in parse_qsl(url_parts.query) if field[0] != "to"]
            query = urlencode([*fields, ("to", recipient)])
            url = urlunsplit(url_parts._replace(path="", query=query))
        if not self._apprise.add(url):
            raise InputError(
                f"notify {name}: url: Apprise rejects the URL; expected the URL of a service that "
                "Apprise supports"
            )

    def send(self, message: Message) -> None:
        """Send a message once.

        Apprise sets the timeouts, and returns only success or failure.
        """
        title = f"QoS oracle: {message.kind.replace('_', ' ')}"
        if not self._apprise.notify(title=title, body=f"{message.text} (#{message.id})"):
            raise NotDeliveredError(f"{self.name}: Apprise could not deliver the message")


def _redact_mail_addresses(record: logging.LogRecord) -> bool:
    """Redact mail addresses in an Apprise log record.

    The result is always True, so that the record is kept.
    """
    record.msg = _MAIL_ADDRESS.sub(REDACTED, record.getMessage())
    record.args = None
    return True


def _import_apprise(target_name: str) -> Any:  # noqa: ANN401  a module that may be missing
    try:
        apprise = importlib.import_module("apprise")
    except ModuleNotFoundError as error:
        raise InputError(
            f"notify {target_name}: url: Apprise is not installed; run "
            f"{format_install_command('notify')}"
        ) from error
    # This code may run several times. Adding the same filter again has no effect.
    importlib.import_module("apprise.logger").logger.addFilter(_redact_mail_addresses)
    return apprise
