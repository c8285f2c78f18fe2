"""Whether new memory is filled: kept for programs, since `empty` never promises anything."""
fill_uninitialized_memory = True
