"""Client of the read API of qos-oracle, on the standard library only."""

from qos_oracle_client.client import ApiError, Client

__all__ = ["ApiError", "Client"]
