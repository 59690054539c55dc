"""Rules: when to stop. Stop rules over counters, and the detectors that count repetition.

It imports `boolab.core`, `boolab.io` and `boolab.errors`, and neither pydantic's models nor pandas, because another
harness's hook has to start fast: pydantic's JSON parser is all that it takes from there. Read `stop` first: it states
when a rule is evaluated and what it sees. `detector` is the interface of a detector, `call_identity` defines which
calls are the same, `catalog` names the rules that users call.
"""
