"""The history as Parquet files, with the tables, the export, and a reader of exports."""
