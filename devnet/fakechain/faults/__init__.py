"""The ways in which a fake endpoint can misbehave."""
