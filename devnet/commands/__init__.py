"""Commands of the demonstrations, with one module per kind of network."""
