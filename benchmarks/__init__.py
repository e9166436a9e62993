"""Made-up fleets, and benchmarks that compare featurelib with outside yardsticks on them."""
