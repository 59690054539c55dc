"""What recorded runs say about runs to come: intervals, survival, and how a finding is told.

Nothing is defined here. Each function of users' is in a module of its own name, and returns a
`boolab.stats.finding.Finding`: a frame, sentences, and the quality of the data first. `boolab.stats.profiles` alone
gives a `boolab.stats.fit.Fit`: a profile with its intervals, and how well it fits.
"""
