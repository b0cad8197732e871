"""The selection service of a gateway, without a network."""
