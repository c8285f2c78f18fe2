"""What tede.explain is made of: symbols (names of addresses), record (events to a tree), text, page and chrome (the
tree to read, in a terminal, a browser and a trace viewer)."""
