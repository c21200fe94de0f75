"""Fashion-MNIST: clothes in MNIST's format, harder to classify than digits."""

from torchvision.datasets import FashionMNIST

from engine.data.sets.idx_files import Source

read = Source("fashion_mnist", FashionMNIST, packed_mb=30.9).read
