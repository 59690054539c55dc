"""What is released, and where it works: `make wheel` and `make compatibility`. None of it runs in `make test`."""
