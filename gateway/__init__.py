"""The selection service of a gateway; it records relay outcomes and selects nodes for relays."""
