"""Serves the page to which the link in each message leads, which confirms or ends a subscription.

No key is needed. Opening the page changes nothing, because mail scanners open links; only the
buttons of the page change the subscription.
"""

from http import HTTPStatus

from fastapi import FastAPI
from fastapi.responses import Response

from oracle.daemon.web.pages.page_frame import UNAVAILABLE, render_template
from oracle.errors import OracleError
from oracle.notify.subscriptions import SubscriptionIntake, compute_link_token
from oracle.store.subscription_repository import SubscriptionState

_PATH = "/subscriptions/{subscription_id}/{token}"
_HEADLINE_BY_STATE = {
    SubscriptionState.NEW: "Not confirmed yet",
    SubscriptionState.UNCONFIRMED: "Not confirmed yet",
    SubscriptionState.ACTIVE: "Active subscription",
    SubscriptionState.ENDED: "Ended subscription",
}


def add_subscription_pages(app: FastAPI, intake: SubscriptionIntake) -> None:
    """Add the subscription page and its button actions."""

    @app.get(_PATH)
    def get_subscription(subscription_id: str, token: str) -> Response:
        """Show a subscription with the buttons that confirm and end it."""
        return _render_subscription(intake, subscription_id, token)

    @app.post(_PATH + "/{action}")
    def change_subscription(subscription_id: str, token: str, action: str) -> Response:
        """Confirm or end a subscription."""
        change = {"confirm": intake.confirm, "end": intake.end}.get(action)
        try:
            subscription = intake.find_by_link(subscription_id, token)
            if subscription is not None and change is not None:
                change(subscription)
        except OracleError:
            return _render_subscription_template(
                "Service unavailable", HTTPStatus.SERVICE_UNAVAILABLE
            )
        return _render_subscription(intake, subscription_id, token)


def _render_subscription(intake: SubscriptionIntake, subscription_id: str, token: str) -> Response:
    try:
        subscription = intake.find_by_link(subscription_id, token)
    except OracleError:
        return _render_subscription_template("Service unavailable", HTTPStatus.SERVICE_UNAVAILABLE)
    if subscription is None:
        return _render_subscription_template("This link is not valid", HTTPStatus.NOT_FOUND)
    return _render_subscription_template(
        _HEADLINE_BY_STATE[subscription.state],
        HTTPStatus.OK,
        path=f"/subscriptions/{subscription.id}/{compute_link_token(subscription)}",
        node=subscription.node,
        channel=subscription.channel,
        state=subscription.state,
        reason=subscription.reason,
    )


def _render_subscription_template(
    headline: str, status: HTTPStatus, **values: str | None
) -> Response:
    defaults = {"path": None, "node": None, "channel": None, "state": None, "reason": None}
    frame = {"here": None, "standing": UNAVAILABLE, "as_of": None, "json_path": None}
    response = render_template(
        "subscription.html", status=status, headline=headline, **(defaults | frame | values)
    )
    response.headers["cache-control"] = "no-store"
    return response
