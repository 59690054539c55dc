"""One script for each peer, and what they share; they run where there is no boolab."""
