"""Extras: features that are not needed to audit, plan and apply.

Each folder has its own types, page and command, and uses only public names of the other packages.
One line of featurelib/cli/commands.toml adds the command. No module outside imports an extra.
"""
