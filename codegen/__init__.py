"""From the entries in ops/*.yaml to C, public headers, stubs for type checkers, and documentation."""
