"""The HTTP interface of a gateway's selection service."""
