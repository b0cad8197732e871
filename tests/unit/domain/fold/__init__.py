"""Events folded into the state of nodes and tasks."""
