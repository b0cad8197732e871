"""The section `[subscriptions]`: whether, and how, node owners subscribe to their notices."""

import re
from typing import TYPE_CHECKING

from pydantic import Field

from oracle.daemon.config.redaction import SecretText
from oracle.daemon.config.sections import Section

if TYPE_CHECKING:
    from oracle.notify.subscriptions import SubscriptionTerms

_SITE = re.compile(r"https?://[a-z0-9.:\[\]-]+")
_MAIL_SCHEMES = ("mailto://", "mailtos://")


class SubscriptionsSection(Section):
    # Whether owners may subscribe to the notices of their node, by a signature of the node's key.
    # Requires `subscriptions.site`.
    enabled: bool = False
    # The address of your pages, as owners enter it (`https://qos.example.org`). Links in messages
    # begin with it, and it is part of the text that owners sign.
    site: str | None = None
    # The mail server for mails to owners, as a URL of Apprise
    # (`mailtos://user:password@smtp.example.org?from=qos@example.org`). By default, owners can
    # only register webhooks. Needs the extra `notify`.
    mail_url: SecretText | None = None
    # The maximum number of subscriptions of one node.
    max_per_node: int = Field(default=3, ge=1, le=100)
    # The maximum number of subscriptions in all.
    max_total: int = Field(default=1000, ge=1, le=100_000)
    # The maximum number of requests of one client address within an hour (IPv6: of one /64
    # network).
    requests_per_hour: int = Field(default=30, ge=1, le=10_000)
    # Days after which a subscription ends if every delivery failed.
    max_failing_days: int = Field(default=7, ge=1, le=365)
    # Whether webhooks without TLS (`http://`) may be registered.
    allow_http: bool = False
    # Whether webhooks may have an address that is not public, such as an address in your own
    # network.
    allow_private: bool = False

    @property
    def terms(self) -> "SubscriptionTerms | None":
        """The limits for owners, or None if they cannot subscribe."""
        if not self.enabled or self.site is None:
            return None
        # Imported here because only processes that serve or notify need it.
        from oracle.notify.subscriptions import SubscriptionTerms  # noqa: PLC0415

        return SubscriptionTerms(
            site=self.site,
            has_mail=self.mail_url is not None,
            max_per_node=self.max_per_node,
            max_total=self.max_total,
            requests_per_hour=self.requests_per_hour,
            allow_http=self.allow_http,
        )


def find_subscription_faults(section: SubscriptionsSection) -> list[str]:
    """Return the conflicts between settings of `[subscriptions]`, one line each."""
    faults = []
    if section.enabled and section.site is None:
        faults.append("subscriptions.site: missing; subscriptions.enabled requires it")
    if section.site is not None and not _SITE.fullmatch(section.site):
        faults.append(
            "subscriptions.site: expected http(s)://, a host in lower case and an optional port, "
            "without a path"
        )
    if section.mail_url is not None and not section.mail_url.startswith(_MAIL_SCHEMES):
        faults.append("subscriptions.mail_url: expected mailto:// or mailtos://")
    return faults
