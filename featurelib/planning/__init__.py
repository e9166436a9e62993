"""Turn a person's request into a plan, or return every reason why there is no plan."""
