"""Scheduling: what may pass the head of the queue, estimated starts and wait reasons, as functions of the queue and the live runs. Torch-free."""
