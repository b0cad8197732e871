"""The types of addresses, hashes, integers and signatures in read API requests.

Addresses and hashes may be in upper or lower case, and are converted to lower case. The published
schema contains the pattern. The parser also checks EIP-55 checksums.
"""

from typing import Annotated, Literal

from fastapi import Path
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from oracle.chain.hex_names import (
    ADDRESS_INPUT_PATTERN,
    ADDRESS_PREFIX_INPUT_PATTERN,
    HASH_INPUT_PATTERN,
    parse_address,
    parse_address_prefix,
    parse_hash,
)

AddressInput = Annotated[str, Field(pattern=ADDRESS_INPUT_PATTERN), AfterValidator(parse_address)]
AddressPrefixInput = Annotated[
    str, Field(pattern=ADDRESS_PREFIX_INPUT_PATTERN), AfterValidator(parse_address_prefix)
]
HashInput = Annotated[str, Field(pattern=HASH_INPUT_PATTERN), AfterValidator(parse_hash)]
NodePath = Annotated[
    str,
    Path(
        description="An address in any letter case, or the first digits of one. Mixed case is "
        "checked against EIP-55.",
        pattern="^0[xX][0-9a-fA-F]{1,40}$",
        examples=["0xfabb0ac9d68b0b445fb7357272ff202c5651694a", "0xfabb"],
    ),
    AfterValidator(parse_address_prefix),
]
HashPath = Annotated[
    str,
    Path(pattern=HASH_INPUT_PATTERN, examples=["0x" + "5e" * 32]),
    AfterValidator(parse_hash),
]

_UINT32 = 2**32 - 1
_UINT40 = 2**40 - 1
# Every JSON reader represents integers up to this one exactly.
_MAX_EXACT_INTEGER = 2**53


def _convert_whole_float(value: object) -> object:
    """Convert a float such as 5.0 to an integer.

    JSON Schema does not distinguish the two.
    """
    return int(value) if isinstance(value, float) and value.is_integer() else value


# In the annotations below, limits come before this validator; otherwise the published schema would
# lack them.
_FromJson = BeforeValidator(_convert_whole_float)
Uint32 = Annotated[int, Field(ge=0, le=_UINT32), _FromJson]
Uint40 = Annotated[int, Field(ge=0, le=_UINT40), _FromJson]
_NonNegativeInteger = Annotated[int, Field(ge=0, le=_MAX_EXACT_INTEGER), _FromJson]
_PositiveInteger = Annotated[int, Field(ge=1, le=_MAX_EXACT_INTEGER), _FromJson]
_Version = Annotated[list[Uint32], Field(min_length=3, max_length=3)]

# A signature has 65 bytes, or up to 1,024 bytes if a contract verifies it (ERC-1271).
SignatureInput = Annotated[str, Field(pattern="^0x([0-9a-fA-F]{2}){1,1024}$")]


class WantedTask(BaseModel):
    """The requirements of a task: the fields of `task_created`, all optional.

    See docs/reference/events-and-jsonl.md.
    """

    model_config = ConfigDict(
        extra="forbid", strict=True, json_schema_extra={"examples": [{"min_vram": 8}]}
    )

    task: HashInput | None = None
    creator: AddressInput | None = None
    fee: Annotated[str, Field(pattern="^(0|[1-9][0-9]{0,76})$")] | None = None
    min_vram: Uint32 | None = None
    required_gpu: str | None = None
    required_gpu_vram: Uint32 | None = None
    models: list[str] | None = None
    version: _Version | None = None
    size: _PositiveInteger | None = None
    kind: Literal["sd", "llm", "sd_ft"] | None = None
    timeout: _NonNegativeInteger | None = Field(
        None, description="Time limit of the task, in seconds."
    )
    group: HashInput | None = None
    group_size: _PositiveInteger | None = None
    time: _NonNegativeInteger | None = Field(
        None,
        description=(
            "Time at which the task is created, in unix seconds; it does not affect the answer, "
            "which is as of the last indexed block."
        ),
    )
