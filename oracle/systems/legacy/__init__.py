"""Crynux of 2024: two rounds of submission, and three nodes a task (seeds/001 and 004)."""
