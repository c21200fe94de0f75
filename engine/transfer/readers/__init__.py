"""Readers for the files of TensorBoard and MLflow."""
