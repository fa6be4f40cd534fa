"""What plugins provide and how they are found: hooks, specs, the registry, budgets, selections. No torch."""
