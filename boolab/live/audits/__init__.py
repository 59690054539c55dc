"""Audits: limits that were declared, against what recorded runs did. Read `audit` first; `count` has the rules."""
