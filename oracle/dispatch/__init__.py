"""The dispatcher: draws nodes for waiting tasks and starts the tasks on-chain."""
