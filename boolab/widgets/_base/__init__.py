"""What all widgets share: the base class, the page that needs no kernel, and the look."""
