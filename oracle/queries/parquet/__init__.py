"""The history as Parquet files: their tables, writing them, and reading them back."""
