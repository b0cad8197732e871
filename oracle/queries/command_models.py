"""The answers of commands outside the read API: `run`, `export`, `config`, `keys` and others."""

from pydantic import Field

from oracle.queries.answers import AddressText, ApiModel, HashText, Integer
from oracle.store.notice_repository import DeliveryProgress
from oracle.store.subscription_repository import Subscription


class SchemaChange(ApiModel):
    """The schema revision before `migrate`, and the revision that this version requires."""

    before: str | None = Field(
        description="Schema revision before the command; null for a database without tables."
    )
    wanted: str
    dry_run: bool


class DatabaseBackup(ApiModel):
    """A backup that `service backup` wrote or `service restore` restored."""

    backup: str = Field(description="Path of the backup file.")
    bytes: int = Field(description="Size of the backup file in bytes.")
    database: str
    block: int | None = Field(
        description=(
            "The last indexed block of the database after the command; null if no block is "
            "indexed, in a dry run, and if the schema is older than the program."
        )
    )
    replaced: str | None = Field(
        description=(
            "Path to which the replaced SQLite database was moved; null if none was replaced, as "
            "in a dry run."
        )
    )
    dry_run: bool


class ServiceFolder(ApiModel):
    """The files that `service init` wrote to a folder, or would write with `--dry-run`."""

    folder: str
    written: list[str]
    kept: list[str] = Field(
        description=(
            "The operator's files (overrides, passwords, alert receivers) that existed already "
            "and were therefore not written."
        )
    )
    dry_run: bool


class ServiceUpgrade(ApiModel):
    """The changes that `service upgrade` made, or would make with `--dry-run`."""

    database: str
    previous_version: str | None = Field(
        description=(
            "Version of the program that last prepared or used the database; null if none is "
            "recorded."
        )
    )
    version: str = Field(description="Version of this program.")
    breaking_changes: dict[str, list[str]] = Field(
        description=(
            "Breaking changes of the changelog by version, for the versions newer than "
            "`previous_version`."
        )
    )
    before: str | None = Field(
        description="Schema revision before the command; null for a database without tables."
    )
    wanted: str = Field(description="Revision of the schema that this version needs.")
    backup: str | None = Field(description="Path of the backup; null if none was needed.")
    dry_run: bool


class ConfigCheck(ApiModel):
    """The result of `config check`."""

    facts: dict[str, str]
    warnings: list[str]
    faults: list[str]


class SelfTestCheck(ApiModel):
    """The result of one check of `selftest`."""

    check: str
    passed: bool
    detail: str


class CreatedKey(ApiModel):
    """A new keystore and its password file."""

    address: AddressText | None = Field(description="Address of the new key; null in a dry run.")
    keystore: str
    password_file: str
    dry_run: bool


class KeyEntry(ApiModel):
    """A key that the configuration references."""

    role: str
    address: AddressText | None = Field(
        description="Address of the key; null if the key cannot be opened."
    )
    where: str
    fault: str | None
    note: str | None


class FoldedBlock(ApiModel):
    """The last folded block of the index."""

    block: int
    time: int = Field(description="Time of the block, in unix seconds.")


class RunResult(ApiModel):
    """The last block of the index, and whether the run was able to publish and dispatch."""

    folded: FoldedBlock | None = Field(
        description="The last indexed block; null if no block is indexed."
    )
    publishing: bool
    dispatching: bool


class ParquetAnswer(ApiModel):
    """The blocks and rows added to a folder of Parquet files, or planned in a dry run."""

    dry_run: bool
    folder: str
    first: int | None = Field(
        serialization_alias="from",
        description="First exported block that is new; null if there were no new blocks.",
    )
    last: int | None = Field(serialization_alias="to")
    final_to: int = Field(
        description=(
            "Last block whose exported rows are final and will not change; below the first block "
            "if there is none."
        )
    )
    rows: dict[str, int] | None = Field(
        description="Number of exported rows by table; null in a dry run."
    )


class FixtureAnswer(ApiModel):
    """The blocks recorded to a fixture file, or planned in a dry run."""

    dry_run: bool
    file: str
    first: int = Field(serialization_alias="from")
    last: int = Field(serialization_alias="to")
    lines: int | None = Field(description="Number of lines written; null in a dry run.")
    resumed_at: int | None


class OutboxChange(ApiModel):
    """The change made to a call or a sender, or planned in a dry run; amounts in wei."""

    did: str = Field(examples=["held", "released", "bumped", "cancelled"])
    dry_run: bool
    intent: int | None = Field(
        default=None,
        description="Number of the changed call; null if the command changed a sender.",
    )
    address: AddressText | None = Field(
        default=None,
        description="Address of the changed sender; null if the command changed a call.",
    )
    nonce: int | None = None
    reason: str | None = None
    gas_limit: int | None = Field(
        default=None,
        description="Gas limit of the new transaction; null if no transaction was made.",
    )
    max_fee_wei: Integer | None = None
    tip_wei: Integer | None = None
    detail: str | None = None


class RebuiltNonce(ApiModel):
    """A nonce that is used on chain; fields are null if its transaction was not found."""

    nonce: int
    hash: HashText | None
    block: int | None
    succeeded: bool | None
    to: AddressText | None
    selector: str | None


class RebuiltAccount(ApiModel):
    """The result of `outbox rebuild` for an account: its nonces or its signing embargo."""

    dry_run: bool
    address: AddressText | None = Field(
        default=None, description="Address of the account; null if the account only signs."
    )
    known_next_nonce: int | None = Field(
        default=None,
        description=(
            "The next nonce according to the database before the command; null if the account "
            "was not in the database."
        ),
    )
    mined: int | None = None
    pending: int | None = None
    next_nonce: int | None = None
    rebuilt: tuple[RebuiltNonce, ...] = ()
    dropped: tuple[int, ...] = ()
    nonces_ahead: tuple[RebuiltNonce, ...] = ()
    paused: str | None = Field(
        default=None, description="Why the account is paused; null if it is not paused."
    )
    round: int | None = Field(
        default=None,
        description=(
            "The contract's last round; null if the account signs no reports, or if no signed "
            "statements can have been lost."
        ),
    )
    last_report: HashText | None = None
    quiet_until: int | None = Field(
        default=None,
        description=(
            "Block time until which the account must sign nothing, in unix seconds; null if it "
            "may sign."
        ),
    )


class NoticeTarget(ApiModel):
    """The delivery state of a notification target."""

    target: str
    delivered_up_to: int | None = Field(
        description="Number of the last delivered notice; null if the target is new."
    )
    newest: int
    tries: int = Field(description="Number of failed attempts to deliver the next notice.")
    next_at: int | None = Field(
        description="Time of the next attempt, in unix seconds; null if no attempt has failed."
    )
    last_error: str | None


class NoticeDelivery(ApiModel):
    """The result of sending a test message to a notification target."""

    target: str
    error: str | None = Field(
        description="Why the notice was not delivered; null if it was delivered."
    )


class SubscriptionEntry(ApiModel):
    """A node owner's subscription to notices, without the owner's contact address."""

    id: str
    node: AddressText
    channel: str
    kinds: list[str] = Field(
        description="Kinds of notices that are delivered; empty if all kinds are."
    )
    state: str = Field(examples=["new", "unconfirmed", "active", "ended"])
    reason: str | None = Field(description="Why the subscription ended; null if it has not ended.")
    created_at: int = Field(
        description="Time at which the subscription was created, in unix seconds."
    )


class NoticeRecipients(ApiModel):
    """The notification targets to which a test message would be sent."""

    recipients: list[str]


def build_notice_target(
    name: str, delivery_state: DeliveryProgress | None, newest_seq: int
) -> NoticeTarget:
    """Return the delivery state of a notification target.

    `newest_seq` is the number of the newest notice.
    """
    return NoticeTarget(
        target=name,
        delivered_up_to=None if delivery_state is None else delivery_state.seq,
        newest=newest_seq,
        tries=0 if delivery_state is None else delivery_state.tries,
        next_at=None
        if delivery_state is None or not delivery_state.tries
        else delivery_state.next_at,
        last_error=None if delivery_state is None else delivery_state.last_error,
    )


def build_subscription_entry(subscription: Subscription) -> SubscriptionEntry:
    return SubscriptionEntry(
        id=subscription.id,
        node=subscription.node,
        channel=subscription.channel,
        kinds=sorted(subscription.kinds),
        state=subscription.state.value,
        reason=subscription.reason,
        created_at=subscription.created_at,
    )


class SystemEntry(ApiModel):
    """A supported network, with its scoring rules and its selection policy."""

    name: str
    version: int
    rules: bool = Field(
        description="Whether the system has a rule set, so that it can score nodes."
    )
    policy: str
    source: str
    summary: str
    sha256: str | None = Field(
        description=(
            "SHA-256 of the rule set; null if the system has no rule set, or an incomplete one."
        )
    )
