"""Reports that wait, are refused, held, or given up."""
