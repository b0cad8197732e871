"""What the commands answer that set an oracle up and try it."""

from pydantic import Field

from oracle.queries.answers import AddressText, ApiModel


class SchemaChange(ApiModel):
    """The revision of the tables before `migrate`, and the one that this version needs."""

    before: str | None = Field(description="null: there were no tables.")
    wanted: str
    dry_run: bool


class ConfigCheck(ApiModel):
    """What `config check` found."""

    facts: dict[str, str]
    warnings: list[str]
    faults: list[str]


class SelfTestCheck(ApiModel):
    """One check of `selftest`."""

    check: str
    passed: bool
    detail: str


class CreatedKey(ApiModel):
    """A new keystore and the file of its password."""

    address: AddressText | None = Field(description="null: a dry run.")
    keystore: str
    password_file: str
    dry_run: bool


class KeyEntry(ApiModel):
    """A key that the configuration names."""

    role: str
    address: AddressText | None = Field(description="null: the key cannot be opened.")
    where: str
    fault: str | None
    note: str | None
