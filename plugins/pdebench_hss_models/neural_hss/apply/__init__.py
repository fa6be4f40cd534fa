"""How a layer's matrices are applied to fields: the forms, what each costs, and the products themselves."""
