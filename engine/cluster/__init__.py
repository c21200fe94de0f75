"""Runs as jobs of a Slurm cluster: the clusters, submission, the worker in a job, its file of records, the checks.

The runner submits a job per run and takes the job's records into the store; the job's worker writes them to a file on
the shared file system. Only the console's machine opens the store.
"""
