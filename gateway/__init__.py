"""A gateway's selection service, which records relay outcomes and selects nodes."""
