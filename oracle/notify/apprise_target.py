"""Mail, Slack, Telegram, Discord and a hundred more, by Apprise: the extra `notify`."""

import importlib
import re
from typing import Any

from oracle.errors import InputError
from oracle.notify.target import Message, NotDeliveredError, NoticeChoice
from oracle.resources import extra_command
from oracle.telemetry.safe_text import hide

# Shorter parts are words.
_SHORTEST = 8


class AppriseTarget:
    """One address of Apprise's; it is never shown, for most hold a token."""

    def __init__(self, name: str, choice: NoticeChoice, url: str) -> None:
        """Raises InputError: Apprise is not installed, or does not know the address."""
        self.name = name
        self.choice = choice
        # Its host may be a token.
        for part in [url, *re.split(r"[/:@?&=]", url)]:
            if len(part) >= _SHORTEST:
                hide(part)
        self._apprise = _apprise(name).Apprise()
        if not self._apprise.add(url):
            raise InputError(f"notify {name}: url: Apprise does not know such an address")

    def send(self, message: Message) -> None:
        """Send it once; Apprise's own limits of time hold. It says only whether it went."""
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
