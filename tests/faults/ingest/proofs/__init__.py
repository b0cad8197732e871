"""What is proven, what is not, and who is found out."""
