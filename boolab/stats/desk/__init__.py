"""The desk: which outcomes a person is asked for, and what the answers show. Read `marks` first.

`marks` is the test of one value, `design` what is fixed before the first question, `state` the next question and what
is shown so far. Evidence has no part in any of it: these are functions of lengths, coins and answers.
"""
