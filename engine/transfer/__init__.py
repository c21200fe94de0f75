"""What leaves the lab as a file and what comes back in: tables, bundles of runs, what other programs recorded.
Torch-free.
"""
