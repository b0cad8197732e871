"""The history as Parquet files: what they hold, how they are written, and read back."""
