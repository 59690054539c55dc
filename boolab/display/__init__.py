"""Display: values as text, HTML and JSON. Values above this floor describe themselves by a `Document`."""
