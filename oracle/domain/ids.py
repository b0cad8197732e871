"""Types of on-chain identifiers, which are all lower-case `0x` hex.

Identifiers are text everywhere from the endpoint's response to the report, so that no identifier
is ever converted.
"""

from typing import NewType

# An address has 20 bytes.
Address = NewType("Address", str)
# These identifiers have 32 bytes each.
Hash = NewType("Hash", str)
TaskKey = NewType("TaskKey", str)
GroupKey = NewType("GroupKey", str)

ZERO_ADDRESS = Address("0x" + 40 * "0")
ZERO_HASH = Hash("0x" + 64 * "0")
