"""The dispatcher, which draws nodes for waiting tasks and starts these tasks on chain."""
