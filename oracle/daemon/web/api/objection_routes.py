"""The route that accepts signed objections and stores them for the daemon."""

import time
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import APIRouter, HTTPException, Request
from fastapi.responses import Response
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from oracle.daemon.web.api.answering import ApiAnswers, PostLimit, build_problem_schema
from oracle.daemon.web.api.input_types import (
    AddressInput,
    SignatureInput,
    Uint32,
    Uint40,
)
from oracle.daemon.web.rate_limit import ClientBuckets, ConcurrencyLimit, TokenBucket
from oracle.domain.ids import Address
from oracle.domain.reports.objections import MAX_WORDS_BYTES, ObjectionReason
from oracle.queries.api.records.objection_view import ObjectionAccepted, accept_objection
from oracle.signing.typed_data import ObjectionStatement

_MAX_BODY_BYTES = 4096
# A client may send a burst of three posts, for example to correct two mistakes, and then one per
# minute.
_POSTS_PER_SECOND = 1 / 60
_POST_BURST = 3
# Limits for all clients together. Checking this many posts takes a twentieth of a CPU.
_ALL_POSTS_PER_SECOND, _ALL_POST_BURST = 10.0, 30
# Maximum number of posts that are checked concurrently, so that threads remain free for readers.
_MAX_CONCURRENT_POSTS = 2
_TOO_MANY = "too many objections were posted; retry in a minute"
_REFUSALS: dict[int | str, dict[str, Any]] = {
    403: build_problem_schema(
        HTTPStatus.FORBIDDEN, "neither the node's key nor its contract did."
    ),
    409: build_problem_schema(
        HTTPStatus.CONFLICT, "it would fail on the chain, or delay nothing."
    ),
    413: build_problem_schema(
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "the body has over 4,096 bytes."
    ),
    429: build_problem_schema(
        HTTPStatus.TOO_MANY_REQUESTS, "a limit is reached; `calldata` can be sent by any account."
    ),
}


def _check_words(text: str) -> str:
    try:
        byte_count = len(text.encode())
    except UnicodeEncodeError:
        raise ValueError("not valid Unicode text") from None
    if byte_count > MAX_WORDS_BYTES:
        raise ValueError(f"{byte_count} bytes; the maximum is {MAX_WORDS_BYTES}")
    return text


def _check_reason(option: str) -> str:
    if ObjectionReason.from_option(option) is None:
        raise ValueError("unknown reason")
    return option


class SignedObjection(BaseModel):
    """A signed objection, as `objection sign --json` prints it."""

    model_config = ConfigDict(extra="forbid", strict=True)

    node: AddressInput
    due_since: Uint40 = Field(description="Time since which the kickout is due, in unix seconds.")
    reason: Annotated[str, AfterValidator(_check_reason)] = Field(
        json_schema_extra={"enum": [reason.option for reason in ObjectionReason]}
    )
    text: Annotated[str, AfterValidator(_check_words)] = Field(
        "", description="The owner's explanation, at most 280 bytes.", max_length=MAX_WORDS_BYTES
    )
    seq: Uint32 = Field(
        description=(
            "Number of the objection: the number of objections that the node has made before."
        )
    )
    deadline: Uint40 = Field(
        description="Latest time of a block that may include the objection, in unix seconds."
    )
    signature: SignatureInput
    to: AddressInput | None = Field(
        None,
        description=(
            "Address of the objections contract, as `objection sign` prints it. The server "
            "ignores it."
        ),
    )
    calldata: str | None = Field(
        None, description="Data of the call, as `objection sign` prints it. The server ignores it."
    )

    @property
    def statement(self) -> ObjectionStatement:
        """The signed statement."""
        reason = ObjectionReason.from_option(self.reason) or ObjectionReason.OTHER
        return ObjectionStatement(
            Address(self.node), self.due_since, reason.value, self.text, self.seq, self.deadline
        )


def create_objection_post_limit() -> PostLimit:
    """Create the rate limit for posts to `/v1/objections`."""
    return PostLimit(
        ClientBuckets(_POSTS_PER_SECOND, _POST_BURST, time.monotonic),
        TokenBucket(_ALL_POSTS_PER_SECOND, _ALL_POST_BURST, time.monotonic),
        _TOO_MANY,
        _MAX_BODY_BYTES,
    )


def build_objection_intake_routes(api_answers: ApiAnswers) -> APIRouter:
    """Build the router that accepts posted objections."""
    router = APIRouter(prefix="/v1", tags=["records"])
    post_limit = ConcurrencyLimit(_MAX_CONCURRENT_POSTS)

    @router.post(
        "/objections",
        operation_id="post_objection",
        status_code=HTTPStatus.ACCEPTED,
        response_model=ObjectionAccepted,
        responses=_REFUSALS,
    )
    def _post_objection(request: Request, signed: SignedObjection) -> Response:
        """Accept a signed objection, which this reporter submits and pays for.

        A refusal names its reason in `refusal`, and nothing is stored.
        """
        with post_limit.try_enter() as is_admitted:
            if not is_admitted:
                raise HTTPException(HTTPStatus.TOO_MANY_REQUESTS, _TOO_MANY)
            response = api_answers.answer_request(
                request,
                lambda: accept_objection(
                    api_answers.source, signed.statement, bytes.fromhex(signed.signature[2:])
                ),
            )
        if response.status_code == HTTPStatus.OK:
            response.status_code = HTTPStatus.ACCEPTED
        return response

    return router
