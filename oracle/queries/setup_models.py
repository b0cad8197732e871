"""Answers of the commands that set up and test an oracle."""

from pydantic import Field

from oracle.queries.answers import AddressText, ApiModel


class SchemaChange(ApiModel):
    """The schema revision before `migrate`, and the revision that this version needs."""

    before: str | None = Field(description="null: there were no tables.")
    wanted: str
    dry_run: bool


class ConfigCheck(ApiModel):
    """The result of `config check`."""

    facts: dict[str, str]
    warnings: list[str]
    faults: list[str]


class SelfTestCheck(ApiModel):
    """One check of `selftest`."""

    check: str
    passed: bool
    detail: str


class CreatedKey(ApiModel):
    """A new keystore and its password file."""

    address: AddressText | None = Field(description="null: a dry run.")
    keystore: str
    password_file: str
    dry_run: bool


class KeyEntry(ApiModel):
    """A key that the configuration references."""

    role: str
    address: AddressText | None = Field(description="null: the key cannot be opened.")
    where: str
    fault: str | None
    note: str | None
