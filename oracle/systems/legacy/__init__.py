"""The Crynux system of 2024, with two submission rounds and three nodes per task.

See docs/reference/sources.md#crynux-qos-of-2024 and
docs/reference/sources.md#crynux-dispatching-of-2024.
"""
