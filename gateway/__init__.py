"""The selection service of a gateway: records relay outcomes and selects a node for each relay."""
