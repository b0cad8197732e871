"""Names of the steps of a walk that call nothing."""

from tests.contracts.fuzz.signing import Signatures

# What a walk does beside calling: wait; remember a place; go back to it, as a reorg does.
WAIT, MARK, REORG = "wait", "mark", "reorg"
UNSIGNED = Signatures(())
