"""AgentEditor: an agent file and its limits. Read `widget` first."""
