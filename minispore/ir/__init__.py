"""The functional graph IR: its nodes, text form, verifier, interpreter and drawings."""
