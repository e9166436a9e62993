"""Rules: the checks of an update by each generation of controllers, from their tables."""
