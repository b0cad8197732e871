"""The queues as the network's documents describe them; the daemon's queue is compared with them.

See docs/reference/sources.md#crynux-dispatching and #crynux-dispatching-of-2024.
"""
