"""The selection service of a gateway: outcomes of relays in, a node for each relay out."""
