"""The final answer of `run --once --json`."""

from pydantic import Field

from oracle.queries.answers import ApiModel


class FoldedBlock(ApiModel):
    """The last folded block of the index."""

    block: int
    time: int = Field(description="Unix seconds.")


class RunResult(ApiModel):
    """The last block of the index, and whether the run could publish and dispatch."""

    folded: FoldedBlock | None = Field(description="null: nothing is indexed yet.")
    publishing: bool
    dispatching: bool
