"""Answers of `export --parquet` and `export --fixture`."""

from pydantic import Field

from oracle.queries.answers import ApiModel


class ParquetAnswer(ApiModel):
    """The blocks and rows added to a folder of Parquet files, or planned in a dry run."""

    dry_run: bool
    folder: str
    first: int | None = Field(serialization_alias="from", description="null: nothing was new.")
    last: int | None = Field(serialization_alias="to")
    final_to: int = Field(description="Last block whose rows are permanent.")
    rows: dict[str, int] | None = Field(description="By table; null: a dry run.")


class FixtureAnswer(ApiModel):
    """The blocks that were recorded, or would be in a dry run."""

    dry_run: bool
    file: str
    first: int = Field(serialization_alias="from")
    last: int = Field(serialization_alias="to")
    lines: int | None = Field(description="null: a dry run.")
    resumed_at: int | None
