"""Answers of `outbox hold`, `release`, `bump`, `cancel` and `rebuild`."""

from pydantic import Field

from oracle.queries.answers import AddressText, ApiModel, HashText, Integer


class OutboxChange(ApiModel):
    """The change made to a call or a sender, or planned in a dry run; amounts in wei."""

    did: str = Field(examples=["held", "released", "bumped", "cancelled"])
    dry_run: bool
    intent: int | None = Field(default=None, description="null: a sender.")
    address: AddressText | None = Field(default=None, description="null: a call.")
    nonce: int | None = None
    reason: str | None = None
    gas_limit: int | None = Field(default=None, description="Gas limit of the new transaction.")
    max_fee_wei: Integer | None = None
    tip_wei: Integer | None = None
    detail: str | None = None


class RebuiltNonce(ApiModel):
    """A nonce that the chain has used; fields are null if its transaction was not found."""

    nonce: int
    hash: HashText | None
    block: int | None
    succeeded: bool | None
    to: AddressText | None
    selector: str | None


class RebuiltAccount(ApiModel):
    """The result of `outbox rebuild` for an account: its nonces, or its signing embargo."""

    dry_run: bool
    address: AddressText | None = Field(
        default=None, description="Account address; null for a signing-only account."
    )
    known_next_nonce: int | None = Field(default=None, description="null: the account is new.")
    mined: int | None = None
    pending: int | None = None
    next_nonce: int | None = None
    rebuilt: tuple[RebuiltNonce, ...] = ()
    dropped: tuple[int, ...] = ()
    nonces_ahead: tuple[RebuiltNonce, ...] = ()
    paused: str | None = Field(default=None, description="Why the account is paused.")
    round: int | None = Field(
        default=None, description="Round of the contract; null: the account signs no reports."
    )
    last_report: HashText | None = None
    quiet_until: int | None = Field(
        default=None, description="End of the signing embargo, in unix seconds of chain time."
    )
