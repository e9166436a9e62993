"""Turn a request of a person into a plan, or into every reason why there is none."""
