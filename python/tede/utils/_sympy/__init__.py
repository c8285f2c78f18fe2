"""Functions of sizes as sympy has none of."""
