"""The indexer: ingests blocks window by window; reorgs, rebuild, backfill."""
