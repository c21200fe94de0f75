"""What keeps a lab's home in order over months: backups, the way back from one, and what crashes leave. Torch-free."""
