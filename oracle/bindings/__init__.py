"""The contracts of oracle and network: calls, views, errors, events, deployment."""
