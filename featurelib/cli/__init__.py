"""Provide the command line: parse, call one API function, print, end with a code."""
