"""A relay's own live figures beside those that follow from the rows it published."""
