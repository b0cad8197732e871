"""The history as Parquet files: the tables, the export, and a reader of exports."""
