"""Who may do what: roles and their rules, passwords, and the ways to sign in. Torch-free."""
