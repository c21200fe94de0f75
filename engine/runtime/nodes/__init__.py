"""Ranks over several nodes: an agent on each further node starts its ranks and relays what they send to the worker."""
