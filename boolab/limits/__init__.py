"""Rules: when to stop. Stop rules over counters, and the detectors that count repetition.

It imports `boolab.core`, `boolab.io` and `boolab.errors`, and neither pydantic nor pandas, because another harness's
hook has to start fast. Pydantic's JSON parser reads arguments where a process has it already, or where the standard
library could read them in another way. Read `stop` first: it states when a rule is evaluated and what it sees.
`detector` is the interface of a detector, `call_identity` defines which calls are the same, `catalog` names the rules
that users call, `monitor` asks them in a loop that is not boolab's.
"""
