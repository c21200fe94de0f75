"""How a lab comes to run on its machine: services, image, proxies, and the packages that all of it is made of."""
