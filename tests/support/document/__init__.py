"""The queues as the network's documents draw them: what tests hold the daemon's line against.

See docs/reference/sources.md#crynux-dispatching and #crynux-dispatching-of-2024.
"""
