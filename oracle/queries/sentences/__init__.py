"""What is said to people of what the read API answers: sentences, numbers and times in words."""
