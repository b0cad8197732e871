"""Writing to the chain: calls, fees, signatures, sending, receipts. It is handed its work."""
