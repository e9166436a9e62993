"""Inventory import: entries of clusters that Strimzi, Amazon or an address lists."""
