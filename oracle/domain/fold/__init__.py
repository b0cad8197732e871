"""The fold: applies events to the state, block by block."""
