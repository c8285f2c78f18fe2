"""What a host's launcher does after it has met the others."""
