"""Mail, Slack, Telegram, Discord and many other services through Apprise (extra `notify`)."""

import importlib
import re
from typing import Any

from oracle.errors import InputError
from oracle.notify.target import Message, NotDeliveredError, NoticeChoice
from oracle.resources import extra_command
from oracle.telemetry.safe_text import hide

# Shorter parts are ordinary words.
_SHORTEST = 8


class AppriseTarget:
    """One Apprise URL; never shown, because most of them hold a token."""

    def __init__(self, name: str, choice: NoticeChoice, url: str) -> None:
        """Raise InputError if Apprise is not installed or rejects the URL."""
        self.name = name
        self.choice = choice
        # The host may be a token too.
        for part in [url, *re.split(r"[/:@?&=]", url)]:
            if len(part) >= _SHORTEST:
                hide(part)
        self._apprise = _apprise(name).Apprise()
        if not self._apprise.add(url):
            raise InputError(f"notify {name}: url: Apprise does not know such an address")

    def send(self, message: Message) -> None:
        """Send a message once, with Apprise's own timeouts; only success or failure is known."""
        title = f"QoS oracle: {message.kind.replace('_', ' ')}"
        if not self._apprise.notify(title=title, body=f"{message.text} (#{message.id})"):
            raise NotDeliveredError(f"{self.name}: Apprise could not deliver it")


def _apprise(name: str) -> Any:  # noqa: ANN401  a module that may be missing
    try:
        return importlib.import_module("apprise")
    except ModuleNotFoundError as error:
        raise InputError(
            f"notify {name}: url: Apprise is not installed; run {extra_command('notify')}"
        ) from error
