"""A net as a module of Lightning; LightningCLI."""

import torch
from lightning.pytorch import LightningModule
from lightning.pytorch.cli import LightningCLI
from net import network, samples
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset


class Classifier(LightningModule):
    """A net of two layers.

    Args:
        lr: Learning rate of SGD.
        width: Units of the hidden layer.
    """

    def __init__(self, lr: float = 0.05, width: int = 256) -> None:
        super().__init__()
        self.lr, self.net = lr, network(width)

    def training_step(self, batch: tuple[Tensor, Tensor]) -> Tensor:
        loss = nn.functional.cross_entropy(self.net(batch[0]), batch[1])
        self.log("train_loss", loss, prog_bar=True)
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=self.lr)

    def train_dataloader(self) -> DataLoader:
        return DataLoader(TensorDataset(*samples()), 64, shuffle=True)


if __name__ == "__main__":
    # Runs that start side by side choose the same folder of logs, which Lightning otherwise refuses.
    LightningCLI(Classifier, save_config_kwargs={"overwrite": True})
