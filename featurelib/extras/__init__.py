"""Extras: features that are not needed to audit, plan and apply.

A folder has its types, page and command, uses public names of the rest alone, and is entered in one
line: its command in featurelib/cli/commands.toml. Nothing outside imports it.
"""
