"""The history as Parquet files: the tables, the export, and reading an export."""
