"""What a report says, when it is due, and how rounds follow each other."""
