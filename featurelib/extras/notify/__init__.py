"""Owner digests: tell each owner what is new since the last message."""
