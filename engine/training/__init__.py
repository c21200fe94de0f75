"""Shared by the data-parallel methods: flat nets, data partition, step log, weight server and client loops, injected
faults. The algorithms are in each experiment's `method.py`.
"""
