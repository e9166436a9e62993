"""Apply plans and single updates to one cluster, and find out what became of them."""
