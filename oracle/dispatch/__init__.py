"""The dispatcher, which draws nodes for waiting tasks and starts the tasks on chain."""
