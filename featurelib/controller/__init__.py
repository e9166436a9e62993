"""Carries out plans and single updates on one cluster, and finds out what became of them."""
