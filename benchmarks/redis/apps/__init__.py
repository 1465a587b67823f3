"""The applications of the measured workers, written as a user would write them."""
