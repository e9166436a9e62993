"""What was asked of clusters and what became of it, kept on this machine."""
