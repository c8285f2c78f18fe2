"""Infrastructure of passes: their base class, and the manager that runs several of them."""
