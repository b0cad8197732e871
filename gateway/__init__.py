"""The selection service of a gateway: takes relay outcomes, and selects a node for each relay."""
