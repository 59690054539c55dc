"""Models: whatever answers a request. One interface (`base`), one file for each kind."""
