"""Builds the notification targets of `[[notify]]`, with their secrets.

Separate from the settings section, so that reading settings imports no HTTP client.
"""

from collections.abc import Callable, Sequence

from oracle.daemon.config.notify_section import NotifySection
from oracle.domain.ids import Address
from oracle.errors import InputError
from oracle.notify.apprise_target import AppriseTarget
from oracle.notify.target import NoticeFilter, Target
from oracle.notify.webhook import Webhook, WebhookEndpoint
from oracle.signing.keystore import read_secret_file

_MIN_SECRET_LENGTH = 16


def open_targets(sections: Sequence[NotifySection], clock: Callable[[], float]) -> list[Target]:
    """Return the notification targets; `clock` returns unix seconds.

    Raises:
        InputError: a secret is missing, short or readable by others; Apprise is missing or does
            not support an address.
    """
    return [_open_target(section, clock) for section in sections]


def _open_target(section: NotifySection, clock: Callable[[], float]) -> Target:
    nodes = frozenset(Address(node) for node in section.nodes)
    choice = NoticeFilter(frozenset(section.kinds), nodes)
    if section.secret_file is None:
        return AppriseTarget(section.name, choice, section.url)
    secret = read_secret_file(section.secret_file).strip()
    if len(secret) < _MIN_SECRET_LENGTH:
        raise InputError(
            f"{section.secret_file}: secret too short; expected at least {_MIN_SECRET_LENGTH} "
            "characters"
        )
    address = WebhookEndpoint(
        section.url, secret.encode(), section.timeout_seconds, section.allow_private
    )
    return Webhook(section.name, choice, address, clock)
