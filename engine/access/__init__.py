"""Access control: roles and permissions, passwords, quotas and sign-in. Torch-free."""
