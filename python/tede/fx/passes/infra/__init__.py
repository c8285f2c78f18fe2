"""What passes are, and what runs several of them."""
