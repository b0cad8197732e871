"""`report` show, push, release, verify."""
