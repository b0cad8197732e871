"""What the transaction manager asks the chain; knows no database."""
