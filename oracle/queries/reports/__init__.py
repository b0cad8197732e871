"""What is asked of reports and rounds: computed anew, and compared with what was said."""
