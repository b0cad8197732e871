"""The contracts QoSOracle and TaskNetwork: calls, views, errors, events, deployment."""
