"""The files of conf/ as values: the inventory, and how the audit judges."""
