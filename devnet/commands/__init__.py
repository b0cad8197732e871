"""Commands of the demonstrations, one module per kind of network."""
