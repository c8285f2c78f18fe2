"""What tede.explain is made of: symbols (names of addresses), record (events to a tree), summary (sums of the tree), text, page and chrome
(the tree to read, in a terminal, a browser or notebook, and a trace viewer)."""
