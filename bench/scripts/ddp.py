"""MNIST with DistributedDataParallel over gloo; argparse."""

import argparse

import torch
import torch.distributed as dist
from net import network
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler
from torchvision.datasets import MNIST
from torchvision.transforms import ToTensor


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default="data", help="Folder with MNIST.")
    parser.add_argument("--lr", type=float, default=0.05, help="Learning rate of SGD.")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=64, help="Images of a step of each process.")
    parser.add_argument("--print-every", type=int, default=20, metavar="STEPS")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    dist.init_process_group("gloo")
    torch.manual_seed(args.seed)
    images = MNIST(args.data, transform=ToTensor())
    sampler: DistributedSampler = DistributedSampler(images, seed=args.seed)
    loader = DataLoader(images, args.batch_size, sampler=sampler)
    net = DistributedDataParallel(network(inputs=28 * 28))
    optimizer = torch.optim.SGD(net.parameters(), lr=args.lr)
    for epoch in range(args.epochs):
        sampler.set_epoch(epoch)
        for step, (batch, labels) in enumerate(loader):
            loss = nn.functional.cross_entropy(net(batch), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if step % args.print_every == 0 and dist.get_rank() == 0:
                print(f"Epoch {epoch} [{step}/{len(loader)}] step {epoch * len(loader) + step} loss {loss.item():.4f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
