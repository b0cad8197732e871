"""What `run --once --json` answers at its end."""

from pydantic import Field

from oracle.queries.answers import ApiModel


class FoldedBlock(ApiModel):
    """The last block that was folded."""

    block: int
    time: int = Field(description="Unix seconds.")


class RunResult(ApiModel):
    """How far the index is, and what could be sent on the way."""

    folded: FoldedBlock | None = Field(description="null: nothing is indexed yet.")
    publishing: bool
    dispatching: bool
