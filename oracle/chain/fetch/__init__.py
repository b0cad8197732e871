"""Block windows: which ranges are asked for, of whom, and read ahead."""
