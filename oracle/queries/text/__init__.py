"""What is asked, in words and tables for people."""
