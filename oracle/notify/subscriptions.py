"""Accepts signed requests by node owners to subscribe, list subscriptions, or end one.

A target is a secret, so no error message or log line of this module contains a target. See
docs/how-to/get-notified.md.
"""

import hmac
import re
import secrets
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from oracle.bindings.contract_signatures import SignatureCheckUnavailableError
from oracle.domain.ids import Address, Hash
from oracle.errors import InputError, TransientError
from oracle.notify.notice_kinds import OWNER_KINDS
from oracle.signing.signature_checks import normalize_statement_signature
from oracle.signing.typed_data import MAX_TTL_SECONDS, NoticeRequest
from oracle.store.database import Store, UnitOfWork
from oracle.store.notice_repository import DeliveryProgress
from oracle.store.subscription_repository import Subscription, SubscriptionState
from oracle.telemetry.logger import get_logger

WEBHOOK, MAIL = "webhook", "mail"
_MAIL_ADDRESS = re.compile(
    r"[A-Za-z0-9._+-]{1,64}@[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)*\.[A-Za-z]{2,24}"
)
_URL_CHARACTERS = re.compile(r"[!-~]+")
# An ended subscription stays listed, with the reason, for `_RETENTION_SECONDS`.
_DAY_SECONDS = 86_400
_RETENTION_SECONDS = 30 * 86_400
# Maximum number of subscriptions that can be created per day for a node, and for a target. Each
# subscription sends a message to an address that may belong to someone else.
_MAX_CREATED_PER_NODE, _MAX_CREATED_PER_TARGET = 10, 3
_TOKEN_DIGITS = 32
# Number of failed tries after which the wait before the next try has grown to an hour.
_TRIES_BEFORE_HOURLY = 11
_HOURS_PER_DAY = 24


class SubscriptionError(InputError):
    """A refused request; the message is sent to the client."""


class SubscriptionLimitError(SubscriptionError):
    """A request that is refused because there were too many requests."""


class SignatureUncheckedError(SubscriptionError):
    """A signature that cannot be checked, because the node's contract cannot be called."""


@dataclass(frozen=True, slots=True)
class SubscriptionTerms:
    """The settings of `[subscriptions]` for accepting requests and delivering notices.

    `site` is the URL of the service's web pages: owners sign it, and every link begins with it.
    `mail_url` is the Apprise URL of the mail server. A subscription ends after `max_failing_days`
    days if every delivery failed. `allow_http` permits webhooks without TLS, and `allow_private`
    webhooks with an address that is not public.
    """

    site: str
    max_per_node: int
    max_total: int
    requests_per_hour: int
    max_failing_days: int
    mail_url: str | None = field(default=None, repr=False)
    allow_http: bool = False
    allow_private: bool = False

    @property
    def channels(self) -> list[str]:
        return [WEBHOOK] if self.mail_url is None else [WEBHOOK, MAIL]

    @property
    def max_tries(self) -> int:
        """The number of consecutive failures after which a subscription ends."""
        return _TRIES_BEFORE_HOURLY + _HOURS_PER_DAY * self.max_failing_days


def find_target_rejection_reason(
    terms: SubscriptionTerms, channel: str, target: str
) -> str | None:
    """Return why the terms do not permit a target, or None if they permit it."""
    if channel not in terms.channels:
        return f"channel: expected one of {', '.join(terms.channels)}"
    if channel == MAIL:
        is_address = _MAIL_ADDRESS.fullmatch(target)
        return None if is_address else "target: expected a mail address like me@example.org"
    schemes = ("https", "http") if terms.allow_http else ("https",)
    if _is_url(target, schemes):
        return None
    return f"target: expected a URL of {' or '.join(schemes)} without a user name"


def _is_url(text: str, schemes: Collection[str]) -> bool:
    try:
        url_parts = urlsplit(text)
        has_public_host = (
            bool(url_parts.hostname) and url_parts.username is None and url_parts.port != 0
        )
    except ValueError:
        return False
    return (
        has_public_host and url_parts.scheme in schemes and bool(_URL_CHARACTERS.fullmatch(text))
    )


def compute_link_token(subscription: Subscription) -> str:
    """Compute the token in a subscription's links, which authorises confirming and ending it."""
    digest = hmac.digest(subscription.secret, b"link", "sha256")
    return digest.hex()[:_TOKEN_DIGITS]


def build_subscription_link(terms: SubscriptionTerms, subscription: Subscription) -> str:
    """Build the link for viewing, confirming and ending a subscription without a key."""
    return f"{terms.site}/subscriptions/{subscription.id}/{compute_link_token(subscription)}"


@dataclass(frozen=True, slots=True)
class SubscriptionIntake:
    """Accepts requests about subscriptions; thread-safe. `clock` returns unix seconds.

    `accepts_signature` returns whether the contract of a node accepts a signature of a digest
    (ERC-1271), or raises SignatureCheckUnavailableError. It is None if contracts cannot be called.
    """

    store: Store
    terms: SubscriptionTerms
    clock: Callable[[], float]
    accepts_signature: Callable[[Address, Hash, bytes], bool] | None = None

    def handle_request(
        self, request: NoticeRequest, raw_signature: bytes
    ) -> tuple[list[Subscription], Subscription | None]:
        """Execute a signed request.

        Returns all subscriptions of the node, and the subscription that the request created, or
        None if it created none.

        Raises:
            SubscriptionError: the request is invalid, or its signature is not the node's.
            SubscriptionLimitError: too many subscriptions exist or were created.
            SignatureUncheckedError: the contract of the node cannot be called now.
            TransientError: the database cannot be written.
        """
        now = int(self.clock())
        self._check_request(request, now)
        with self.store.read_transaction() as uow:
            is_known_node = bool(uow.nodes.get_many([request.node]))
        if not is_known_node:
            raise SubscriptionError(f"node: {request.node} was never a member of this network")
        self._check_signature(request, raw_signature)
        created_subscription = None
        with self.store.transaction() as uow:
            if not uow.subscriptions.use_nonce(request.node, request.nonce):
                raise SubscriptionError("nonce: expected a larger number than in the last request")
            if request.action == "subscribe":
                created_subscription = self._add(uow, request, now)
            elif request.action == "unsubscribe":
                _end_own_subscription(uow, request, now)
            node_subscriptions = uow.subscriptions.list_for_node(request.node)
        return node_subscriptions, created_subscription

    def load_chain_id(self) -> int:
        """Return the chain id that signatures must be made for.

        Raises:
            TransientError: nothing is indexed yet.
        """
        with self.store.read_transaction() as uow:
            identity = uow.identity.get()
        if identity is None:
            raise TransientError("nothing is indexed yet")
        return identity.chain_id

    def find_by_link(self, subscription_id: str, token: str) -> Subscription | None:
        """Return the subscription that a link belongs to, or None if the link is invalid."""
        with self.store.read_transaction() as uow:
            subscription = uow.subscriptions.get(subscription_id)
        if subscription is None or not hmac.compare_digest(
            compute_link_token(subscription).encode(), token.encode()
        ):
            return None
        return subscription

    def confirm(self, entry: Subscription) -> None:
        """Activate a subscription whose mailed link was opened to confirm it."""
        with self.store.transaction() as uow:
            if entry.state == SubscriptionState.UNCONFIRMED:
                activate(uow, entry.id, int(self.clock()))

    def end(self, entry: Subscription) -> None:
        """End a subscription whose owner opened its link."""
        with self.store.transaction() as uow:
            uow.subscriptions.end(entry.id, "unsubscribed by its link", int(self.clock()))

    def _check_request(self, request: NoticeRequest, now: int) -> None:
        if request.service != self.terms.site:
            raise SubscriptionError(f"service: expected {self.terms.site}")
        if not now < request.deadline <= now + MAX_TTL_SECONDS:
            raise SubscriptionError(
                f"deadline: expected a unix time within the next {MAX_TTL_SECONDS} seconds"
            )
        if request.action == "subscribe":
            reason = find_target_rejection_reason(self.terms, request.channel, request.target)
            if reason is not None:
                raise SubscriptionError(reason)
            if not _split_notice_kinds(request.kinds) <= OWNER_KINDS:
                kinds_text = ", ".join(sorted(OWNER_KINDS))
                raise SubscriptionError(f"kinds: expected a comma-separated list of: {kinds_text}")

    def _check_signature(self, request: NoticeRequest, raw_signature: bytes) -> None:
        digest = request.compute_digest(self.load_chain_id())
        is_valid_signature = (
            normalize_statement_signature(raw_signature, digest, request.node) is not None
        )
        if not is_valid_signature and self.accepts_signature is not None:
            try:
                is_valid_signature = self.accepts_signature(request.node, digest, raw_signature)
            except SignatureCheckUnavailableError as error:
                raise SignatureUncheckedError(
                    f"signature: not by the key of {request.node}, and whether its contract "
                    f"accepts it was not checked: {error}; the Atom feed of the node needs no "
                    "signature"
                ) from None
        if not is_valid_signature:
            raise SubscriptionError(
                "signature: not a signature of this request by the key or the contract of "
                f"{request.node}"
            )

    def _add(self, uow: UnitOfWork, request: NoticeRequest, now: int) -> Subscription:
        node_subscriptions = uow.subscriptions.list_for_node(request.node)
        live_count = sum(entry.state != SubscriptionState.ENDED for entry in node_subscriptions)
        if live_count >= self.terms.max_per_node:
            raise SubscriptionLimitError(
                f"the node already has {live_count} subscriptions, the maximum; end one of them"
            )
        yesterday = now - _DAY_SECONDS
        created_count = sum(entry.created_at >= yesterday for entry in node_subscriptions)
        target_count = uow.subscriptions.count_created_since(yesterday, request.target)
        if created_count >= _MAX_CREATED_PER_NODE or target_count >= _MAX_CREATED_PER_TARGET:
            raise SubscriptionLimitError("too many subscriptions were created within a day")
        count_by_state = uow.subscriptions.count_by_state()
        count_by_state.pop(SubscriptionState.ENDED, None)
        if sum(count_by_state.values()) >= self.terms.max_total:
            raise SubscriptionLimitError("this server accepts no more subscriptions")
        subscription = Subscription(
            id=secrets.token_hex(8),
            node=request.node,
            channel=request.channel,
            target=request.target,
            kinds=_split_notice_kinds(request.kinds),
            secret=secrets.token_bytes(32),
            created_at=now,
        )
        uow.subscriptions.prune_ended(now - _RETENTION_SECONDS)
        uow.subscriptions.add(subscription)
        uow.notices.save_progress(
            DeliveryProgress(subscription.progress_name, uow.notices.get_newest_seq())
        )
        get_logger().info(
            "subscription_created",
            subscription=subscription.id,
            node=subscription.node,
            channel=subscription.channel,
        )
        return subscription


def activate(uow: UnitOfWork, subscription_id: str, now: int) -> None:
    """Activate a subscription that has not ended.

    The owner receives notices from now on.
    """
    subscription = uow.subscriptions.get(subscription_id)
    if subscription is None or subscription.state in {
        SubscriptionState.ACTIVE,
        SubscriptionState.ENDED,
    }:
        return
    uow.subscriptions.set_state(subscription.id, SubscriptionState.ACTIVE, now)
    uow.notices.save_progress(
        DeliveryProgress(subscription.progress_name, uow.notices.get_newest_seq())
    )


def _end_own_subscription(uow: UnitOfWork, request: NoticeRequest, now: int) -> None:
    subscription = uow.subscriptions.get(request.target)
    if subscription is None or subscription.node != request.node:
        raise SubscriptionError("target: expected the id of a subscription of this node")
    if subscription.state != SubscriptionState.ENDED:
        uow.subscriptions.end(subscription.id, "unsubscribed", now)


def _split_notice_kinds(text: str) -> frozenset[str]:
    return frozenset(filter(None, text.split(",")))
