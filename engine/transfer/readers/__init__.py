"""What TensorBoard and MLflow write, read as runs."""
