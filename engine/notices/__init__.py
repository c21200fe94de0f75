"""Notices: what tells people, by webhook or e-mail, that something of theirs has ended. Torch-free."""
