"""What is written for people: pages, links, citations, and tables that are made from code."""
