"""What featurelib says, frozen: transcripts of commands, gold tables, reasons of refused lines.

FEATURELIB_REWRITE=1 pytest tests/golden writes them anew; review the diff like code.
"""
