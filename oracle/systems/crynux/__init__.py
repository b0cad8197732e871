"""The current Crynux system, with QoS by validation groups and a weighted draw.

See docs/reference/sources.md#crynux-qos and docs/reference/sources.md#crynux-dispatching.
"""
