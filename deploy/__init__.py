"""Deployment on a lab's machine: services, image, proxies, and locked packages."""
