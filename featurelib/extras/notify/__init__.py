"""Owner digests: send each owner the news since the last message."""
