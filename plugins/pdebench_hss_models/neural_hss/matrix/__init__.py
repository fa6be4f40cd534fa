"""HSS matrices: sizes, factors, products, algebra. Knows no layer and no task."""
