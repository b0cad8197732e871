"""The supported systems, which define how nodes are scored and selected."""
