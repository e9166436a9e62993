"""From what a person asks to a plan, or to every reason why there is none."""
