"""Apply plans and single updates to one cluster, and determine their outcomes."""
