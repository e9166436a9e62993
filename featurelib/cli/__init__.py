"""Commands and entrances: parse, call one thing, print, end with a code."""
