"""Scheduling: what may pass the head of the queue, estimated starts and wait reasons, of the queue and the live runs.

Torch-free.
"""
