"""The fault cases, and the lies of endpoints."""
