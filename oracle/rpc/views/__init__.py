"""The endpoints as a sender sees them: asked one by one, or all together."""
