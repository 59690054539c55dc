"""`boolab demo`. Read `demo` first; `recordings` makes what it shows."""
