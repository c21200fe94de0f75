"""MNIST, normalized with the values of the published codes."""

from torchvision.datasets import MNIST

from engine.data.sets.idx_files import Source

read = Source("mnist", MNIST, packed_mb=11.6, normalization=(0.1307, 0.3081)).read
