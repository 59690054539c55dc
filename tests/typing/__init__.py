"""What type checkers say of calls of the public API."""
