"""The signs of the exhibits, a module for each system."""
