"""Rules: what each generation of controllers asks of an update, as the tables have it."""
