"""Initial levels: what a new cluster starts with, or why it cannot."""
