"""Reports that wait, are rejected, held, or given up."""
