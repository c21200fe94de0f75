"""The shared part of the web console: the entry, our routes, forms, charts and live components. Never
torch, never SQL.
"""
