"""The route `/v1/subscriptions`, where node owners subscribe to notices with a signature.

No response is cached, because each signed request stores its nonce in the database.
"""

import time
from http import HTTPStatus
from typing import Any, Literal

from fastapi import APIRouter
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, ConfigDict, Field

from oracle.daemon.web.api.answering import (
    PostLimit,
    build_problem_from_error,
    build_problem_response,
    build_problem_schema,
)
from oracle.daemon.web.api.input_types import AddressInput, SignatureInput
from oracle.daemon.web.rate_limit import ClientBuckets, TokenBucket
from oracle.domain.ids import ZERO_ADDRESS, Address
from oracle.errors import OracleError
from oracle.notify.notice_kinds import OWNER_KINDS
from oracle.notify.subscriptions import (
    WEBHOOK,
    SignatureUncheckedError,
    SubscriptionError,
    SubscriptionIntake,
    SubscriptionLimitError,
    SubscriptionTerms,
)
from oracle.queries.answers import LARGEST_INTEGER
from oracle.signing.typed_data import NoticeRequest, build_notice_request_typed_data
from oracle.store.subscription_repository import Subscription

_HOUR_SECONDS = 3600
_MAX_BODY_BYTES = 8192
# Limits for all clients together. They are low, because each request verifies a signature and
# writes to the database.
_MAX_PER_SECOND, _MAX_BURST = 2.0, 20
# HTTP status of each error. Refusals that are not listed have status 403.
_STATUS_BY_ERROR: dict[type[SubscriptionError], HTTPStatus] = {
    SubscriptionLimitError: HTTPStatus.TOO_MANY_REQUESTS,
    SignatureUncheckedError: HTTPStatus.SERVICE_UNAVAILABLE,
}
_NOT_STORED = {"cache-control": "no-store"}
_REFUSALS: dict[int | str, dict[str, Any]] = {
    403: build_problem_schema(HTTPStatus.FORBIDDEN, "it is not valid, or not signed by the node."),
    413: build_problem_schema(
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"the body has over {_MAX_BODY_BYTES:,} bytes."
    ),
    429: build_problem_schema(HTTPStatus.TOO_MANY_REQUESTS, "a limit is reached; see `detail`."),
}


class SubscriptionRequest(BaseModel):
    """The fields that were signed (`NoticeRequest`), and the signature."""

    model_config = ConfigDict(extra="forbid", strict=True)

    service: str = Field(
        max_length=200,
        description="The value of `service` in the response to `GET /v1/subscriptions`.",
    )
    node: AddressInput
    action: Literal["subscribe", "list", "unsubscribe"]
    channel: Literal["", "webhook", "mail"] = ""
    target: str = Field(
        "",
        max_length=500,
        pattern="^[!-~]*$",
        description=(
            "The URL or mail address that receives the notices; to unsubscribe, the id of the "
            "subscription."
        ),
    )
    kinds: str = Field(
        "",
        max_length=500,
        pattern="^[a-z_,]*$",
        description="Comma-separated kinds of notices; an empty text subscribes to all kinds.",
    )
    nonce: int = Field(
        ge=1,
        le=LARGEST_INTEGER,
        description="A number that is larger than the nonce of the node's last request.",
    )
    deadline: int = Field(
        ge=0,
        le=LARGEST_INTEGER,
        description=(
            "Time at which the signature expires, in unix seconds; at most an hour from now."
        ),
    )
    signature: SignatureInput

    @property
    def statement(self) -> NoticeRequest:
        """The signed statement."""
        return NoticeRequest(
            **{**self.model_dump(exclude={"signature"}), "node": Address(self.node)}
        )


class SubscriptionView(BaseModel):
    """A subscription, without the address that receives the notices."""

    id: str
    channel: str
    kinds: list[str]
    state: str = Field(
        description="State of the subscription: `new`, `unconfirmed`, `active` or `ended`."
    )
    reason: str | None = Field(description="Why the subscription ended; null if it has not ended.")
    created_at: int = Field(
        description="Time at which the subscription was created, in unix seconds."
    )


class OwnSubscriptions(BaseModel):
    """A node's subscriptions, and the secret of a webhook that was just registered."""

    subscriptions: list[SubscriptionView]
    created: str | None = Field(
        description="Id of the subscription that this request created; null if it created none."
    )
    secret: str | None = Field(
        description=(
            "Secret with which the messages to the new webhook are signed; no later response "
            "contains it; null if this request created no webhook."
        )
    )


class SubscriptionForm(BaseModel):
    """The data for a request; the client signs `typed_data` with its own `message`."""

    service: str
    channels: list[str]
    kinds: list[str]
    max_per_node: int
    typed_data: dict[str, Any] = Field(
        description="EIP-712 data to sign, with an example of a message."
    )


def create_subscription_post_limit(terms: SubscriptionTerms) -> PostLimit:
    """Create the rate limit for posts to `/v1/subscriptions`."""
    per_hour = terms.requests_per_hour
    return PostLimit(
        ClientBuckets(per_hour / _HOUR_SECONDS, per_hour, time.monotonic),
        TokenBucket(_MAX_PER_SECOND, _MAX_BURST, time.monotonic),
        "too many requests about subscriptions; retry later",
        _MAX_BODY_BYTES,
    )


def build_subscription_routes(intake: SubscriptionIntake) -> APIRouter:
    """Build the router for subscriptions."""
    router = APIRouter(prefix="/v1", tags=["subscriptions"])

    @router.get(
        "/subscriptions", operation_id="subscription_form", response_model=SubscriptionForm
    )
    def _get_form() -> Response:
        """Return the data that an owner signs to subscribe to a node's notices."""
        example_request = NoticeRequest(
            intake.terms.site, ZERO_ADDRESS, "list", nonce=1, deadline=0
        )
        form = SubscriptionForm(
            service=intake.terms.site,
            channels=intake.terms.channels,
            kinds=sorted(OWNER_KINDS),
            max_per_node=intake.terms.max_per_node,
            typed_data=build_notice_request_typed_data(example_request, intake.load_chain_id()),
        )
        return JSONResponse(form.model_dump(), headers=_NOT_STORED)

    @router.post(
        "/subscriptions",
        operation_id="subscribe",
        response_model=OwnSubscriptions,
        responses=_REFUSALS,
    )
    def _handle_request(body: SubscriptionRequest) -> Response:
        """Subscribe to the notices of a node, list its subscriptions, or end one.

        The signature must be by the node's key or its contract (ERC-1271). A webhook must then
        return the `challenge` that it gets; a mail address gets a link for confirmation.
        """
        try:
            node_subscriptions, created_subscription = intake.handle_request(
                body.statement, bytes.fromhex(body.signature[2:])
            )
        except SubscriptionError as error:
            status = _STATUS_BY_ERROR.get(type(error), HTTPStatus.FORBIDDEN)
            return build_problem_response(status, str(error))
        except OracleError as error:
            return build_problem_from_error(error)
        is_webhook = created_subscription is not None and created_subscription.channel == WEBHOOK
        own_subscriptions = OwnSubscriptions(
            subscriptions=[_build_view(entry) for entry in node_subscriptions],
            created=None if created_subscription is None else created_subscription.id,
            secret=created_subscription.secret.hex()
            if created_subscription is not None and is_webhook
            else None,
        )
        return JSONResponse(own_subscriptions.model_dump(), headers=_NOT_STORED)

    return router


def _build_view(entry: Subscription) -> SubscriptionView:
    return SubscriptionView(
        id=entry.id,
        channel=entry.channel,
        kinds=sorted(entry.kinds or OWNER_KINDS),
        state=entry.state,
        reason=entry.reason,
        created_at=entry.created_at,
    )
