"""Names of the steps of a walk that call nothing."""

from tests.contracts.fuzz.signing import Signatures

# Actions of a walk besides calls: wait, save a state, and return to it, as a reorg does.
WAIT, MARK, REORG = "wait", "mark", "reorg"
UNSIGNED = Signatures(())
