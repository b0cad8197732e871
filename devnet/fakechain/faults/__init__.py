"""The ways in which such an endpoint misbehaves."""
