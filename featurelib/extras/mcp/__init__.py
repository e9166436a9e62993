"""Read-only tools for assistants: a server of the Model Context Protocol on standard input."""
