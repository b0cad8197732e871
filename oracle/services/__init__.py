"""One file a verb, one function a step: what the daemon does."""
