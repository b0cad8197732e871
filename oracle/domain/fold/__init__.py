"""The fold, which applies events to the state, block by block."""
