"""Builds the notification targets of `[[notify]]`, with their secrets.

Separate from the settings section, so that reading settings imports no HTTP client.
"""

from collections.abc import Callable, Sequence

from oracle.daemon.config.notify_section import NotifySection
from oracle.domain.ids import Address
from oracle.errors import InputError
from oracle.notify.apprise_target import AppriseTarget
from oracle.notify.target import NoticeChoice, Target
from oracle.notify.webhook import Webhook, WebhookAddress
from oracle.signing.keystore import read_secret

_LEAST_SECRET = 16


def targets_of(told: Sequence[NotifySection], clock: Callable[[], float]) -> list[Target]:
    """Return the notification targets; `clock` returns unix seconds.

    Raises:
        InputError: a secret is missing, short or readable by others; Apprise is missing or does
            not
            support an address.
    """
    return [_target(one, clock) for one in told]


def _target(one: NotifySection, clock: Callable[[], float]) -> Target:
    nodes = frozenset(Address(node) for node in one.nodes)
    choice = NoticeChoice(frozenset(one.kinds), nodes)
    if one.secret_file is None:
        return AppriseTarget(one.name, choice, one.url)
    secret = read_secret(one.secret_file).strip()
    if len(secret) < _LEAST_SECRET:
        raise InputError(f"{one.secret_file}: a secret has {_LEAST_SECRET} characters at least")
    address = WebhookAddress(one.url, secret.encode(), one.timeout_seconds, one.allow_private)
    return Webhook(one.name, choice, address, clock)
