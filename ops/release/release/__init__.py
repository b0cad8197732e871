"""Makes releases by pinning versions, building everything twice, and signing the results."""
