"""What a gateway's selection service keeps, in a database of its own."""
