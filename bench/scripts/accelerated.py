"""A net trained by Hugging Face's Accelerate; argparse."""

import argparse

import torch
from accelerate import Accelerator
from net import network, samples
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--learning_rate", type=float, default=0.05)
parser.add_argument("--num_train_epochs", type=int, default=3)
parser.add_argument("--mixed_precision", choices=["no", "bf16"], default="no")
parser.add_argument("--with_tracking", action="store_true", help="Write TensorBoard's event files.")
args = parser.parse_args()

tracker = "tensorboard" if args.with_tracking else None
accelerator = Accelerator(mixed_precision=args.mixed_precision, log_with=tracker, project_dir="tracked")
accelerator.init_trackers("kinds", config=vars(args))
net = network()
optimizer = torch.optim.SGD(net.parameters(), lr=args.learning_rate)
loader = DataLoader(TensorDataset(*samples()), 64, shuffle=True)
net, optimizer, loader = accelerator.prepare(net, optimizer, loader)
done = 0
for epoch in range(args.num_train_epochs):
    for points, labels in loader:
        loss = nn.functional.cross_entropy(net(points), labels)
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
        done += 1
        if done % 20 == 0:
            accelerator.log({"train_loss": loss.item()}, step=done)
    accelerator.print(f"epoch {epoch}: loss {loss.item():.4f}")
accelerator.end_training()
