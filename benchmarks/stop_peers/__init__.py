"""Released packages as entries of the stop benchmark: after which step of each recorded run would they stop it?"""
