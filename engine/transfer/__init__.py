"""Export and import of files: tables, bundles of runs, and runs recorded by other programs. Torch-free."""
