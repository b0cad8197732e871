"""The only room with SQL: tables, bulk paths, one transaction around everything."""
