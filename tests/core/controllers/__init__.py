"""A plain oracle: what each generation of Kafka's controllers does, as if-statements."""
