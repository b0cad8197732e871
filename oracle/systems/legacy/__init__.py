"""Crynux of 2024: two rounds of submission, and three nodes a task.

See docs/reference/sources.md#crynux-qos-of-2024 and
docs/reference/sources.md#crynux-dispatching-of-2024.
"""
