# ruff: noqa: E501 - lines as programs print them
"""What scripts print becomes metrics where it is clearly a measurement, and never otherwise."""

from itertools import pairwise

import pytest
from hypothesis import strategies as some

from engine.runtime.command.sources.printed import PrintedLines
from engine.runtime.command.sources.readings import Lines, Value
from tests.inputs import drawn


def read(text: str, *cuts: int) -> list[tuple[str, int, float]]:
    """Return the values of a log that arrives in pieces, cut at these bytes."""
    data, lines, printed, found = text.encode(), Lines(), PrintedLines(), list[Value]()
    for begin, end in pairwise([0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]):
        found += [value for line in lines.feed(data[begin:end]) for value in printed.read(line, 0)]
    found += [value for line in lines.rest() for value in printed.read(line, 0)] + printed.rest(0)
    return [(value.name, value.step, value.value) for value in found]


FORMATS: dict[str, tuple[str, list[tuple[str, int, float]]]] = {
    "torch's MNIST example": (
        "Train Epoch: 1 [640/60000 (1%)]\tLoss: 2.33\nTrain Epoch: 1 [1280/60000 (2%)]\tLoss: 2.1\n\n"
        "Test set: Average loss: 0.0505, Accuracy: 9830/10000 (98%)\n\nTrain Epoch: 2 [0/60000 (0%)]\tLoss: 1.5\n",
        [
            *[("Loss", 640, 2.33), ("Loss", 1280, 2.1), ("test/Average loss", 1280, 0.0505)],
            *[("test/Accuracy", 1280, 98.3), ("Loss", 60000, 1.5)],
        ],
    ),
    "torch's ImageNet example": (
        "Epoch: [1][ 10/391]\tTime  2.3 ( 2.3)\tLoss 6.9e+00 (6.9e+00)\tAcc@1   0.50 (  0.25)\n"
        "Test: [ 5/98]\tTime  1.0 ( 1.0)\tLoss 6.5e+00 (6.5e+00)\n *   Acc@1 1.340 Acc@5 4.500\n",
        [
            *[("Time", 10, 2.3), ("Loss", 10, 6.9), ("Acc@1", 10, 0.5), ("test/Time", 5, 1.0), ("test/Loss", 5, 6.5)],
            *[("* Acc@1", 10, 1.34), ("* Acc@5", 10, 4.5)],
        ],
    ),
    "torch's CIFAR tutorial": (
        "[1,  2000] loss: 2.183\n[1,  4000] loss: 1.853\n[2,  2000] loss: 1.1\nFinished Training\n"
        "Accuracy of the network on the 10000 test images: 54 %\n",
        [
            *[("loss", 2000, 2.183), ("loss", 4000, 1.853), ("loss", 6000, 1.1)],
            ("Accuracy of the network on the 10000 test images", 6000, 54),
        ],
    ),
    "torch's word language model": (
        "| epoch   1 |   200/ 2983 batches | lr 20.00 | ms/batch 12.30 | loss  7.64 |\n"
        "| end of epoch   1 | time: 45.30s | valid loss  5.70 |\n",
        [
            *[("lr", 200, 20), ("ms/batch", 200, 12.3), ("loss", 200, 7.64)],
            *[("time", 200, 45.3), ("valid loss", 200, 5.7)],
        ],
    ),
    "DCGAN": (
        "[0/5][50/1583]\tLoss_D: 1.7\tLoss_G: 5.3\tD(x): 0.5\tD(G(z)): 0.25 / 0.01\n",
        [("Loss_D", 50, 1.7), ("Loss_G", 50, 5.3), ("D(x)", 50, 0.5), ("D(G(z))", 50, 0.25)],
    ),
    "nanoGPT": (
        "step 0: train loss 4.2, val loss 4.3\niter 0: loss 4.25, time 12.5ms, mfu -100.00%\niter 10: loss 3.5, time 9ms\n",
        [
            *[("train loss", 0, 4.2), ("val loss", 0, 4.3), ("loss", 0, 4.25), ("time", 0, 12.5), ("mfu", 0, -100)],
            *[("loss", 10, 3.5), ("time", 10, 9)],
        ],
    ),
    "epoch and step, each of a total": (
        "Epoch [1/5], Step [100/600], Loss: 0.5\nEpoch [2/5], Step [100/600], Loss: 0.25\n",
        [("Loss", 100, 0.5), ("Loss", 700, 0.25)],
    ),
    "epoch and batch, without a total": (
        "Epoch 1, Batch 100, Loss: 3\nEpoch 1, Batch 200, Loss: 2\nEpoch 2, Batch 100, Loss: 1\n",
        [("Loss", 100, 3), ("Loss", 200, 2), ("Loss", 300, 1)],
    ),
    "Keras 2, redrawn": (
        "Epoch 1/2\n  1/469 [....] - ETA: 2:13 - loss: 2.5\b\b\b\b\b\r469/469 [====] - 3s 5ms/step - loss: 0.5 - val_loss: 0.25\n"
        "Epoch 2/2\n469/469 [====] - 3s 5ms/step - loss: 0.125 - val_loss: 0.1\n",
        [("loss", 1, 2.5), ("loss", 469, 0.5), ("val_loss", 469, 0.25), ("loss", 938, 0.125), ("val_loss", 938, 0.1)],
    ),
    "Keras 3, in colours": (
        "Epoch 1/2\n\x1b[1m469/469\x1b[0m \x1b[32m━━━━━━\x1b[0m\x1b[37m\x1b[0m \x1b[1m3s\x1b[0m 5ms/step - accuracy: 0.75 - loss: 0.5\n",
        [("accuracy", 469, 0.75), ("loss", 469, 0.5)],
    ),
    "one line per epoch": (
        "Epoch 3/10 - loss: 0.5 - accuracy: 0.9\nEpoch 4/10 - loss: inf - accuracy: 0.9\n",
        [("loss", 3, 0.5), ("accuracy", 3, 0.9), ("loss", 4, float("inf")), ("accuracy", 4, 0.9)],
    ),
    "Hugging Face Trainer with its bar": (
        "  1%|▏   | 10/1000 [00:10<12:00,  1.4it/s]\r{'loss': 0.5, 'learning_rate': 1e-05, 'epoch': 0.1}\n"
        "  2%|▏   | 20/1000 [00:10<12:00,  1.4it/s]\r{'loss': '0.25', 'learning_rate': 2e-05, 'epoch': 0.2}\n",
        [("loss", 10, 0.5), ("learning_rate", 10, 1e-5), ("loss", 20, 0.25), ("learning_rate", 20, 2e-5)],
    ),
    "Hugging Face Trainer without": (
        "{'loss': 0.5, 'epoch': 0.1}\n{'loss': 0.25, 'epoch': 0.2}\n{'eval_loss': 0.3, 'epoch': 1.0}\n",
        [("loss", 0, 0.5), ("loss", 1, 0.25), ("eval_loss", 1, 0.3)],
    ),
    "Lightning's bar": (
        "Sanity Checking: 100%|██| 2/2 [00:00<00:00, 9it/s]\rEpoch 0:  50%|██  | 5/10 [00:01<00:01,  4.9it/s, loss=0.3, v_num=7]\r"
        "Epoch 0: 100%|████| 10/10 [00:02<00:00, 4.9it/s, loss=0.2, v_num=7]\rEpoch 1:  10%|█  | 1/10 [00:00<00:01, 5it/s, v_num=7, loss=0.1]\n",
        [("loss", 5, 0.3), ("loss", 10, 0.2), ("loss", 11, 0.1)],
    ),
    "a bar with a colon in its text": (
        "Epoch 2/3: 100%|██| 50/50 [00:01<00:00, 40.1it/s, loss=0.5, acc=91.5%]\n",
        [("loss", 50, 0.5), ("acc", 50, 91.5)],
    ),
    "Megatron": (
        " iteration       10/  500000 | elapsed time per iteration (ms): 1234.5 | learning rate: 1.500E-06 | lm loss: 1.083E+01 |\n",
        [("elapsed time per iteration (ms)", 10, 1234.5), ("learning rate", 10, 1.5e-6), ("lm loss", 10, 10.83)],
    ),
    "fairseq's JSON": (
        '2024-01-02 03:04:05 | INFO | train_inner | {"epoch": 1, "update": 0.02, "loss": "9.125", "num_updates": "100", "lr": "1e-5"}\n',
        [("loss", 100, 9.125), ("lr", 100, 1e-5)],
    ),
    "fairseq's text": (
        "epoch 001:  10 / 500 loss=9.1, nll_loss=8.2, ppl=300.1, wps=1234\n",
        [("loss", 10, 9.1), ("nll_loss", 10, 8.2), ("ppl", 10, 300.1), ("wps", 10, 1234)],
    ),
    "detectron2": (
        "\x1b[32m[01/02 03:04:05 d2.utils.events]: \x1b[0m eta: 0:10:00  iter: 19  total_loss: 1.5  time: 0.25  lr: 0.00025  max_mem: 2000M\n",
        [("total_loss", 19, 1.5), ("time", 19, 0.25), ("lr", 19, 0.00025)],
    ),
    "absl's logging": (
        "I0102 03:04:05.123456 139 train.py:50] step 10, loss = 0.5, lr = 0.1\n",
        [("loss", 10, 0.5), ("lr", 10, 0.1)],
    ),
    "torchrun's and logging's prefixes": (
        "[default0]:2024-01-02 03:04:05,123 - root - INFO - epoch=1 loss=0.25\nINFO:root:epoch=2 loss=0.125\n",
        [("loss", 1, 0.25), ("loss", 2, 0.125)],
    ),
    "Stable-Baselines3": (
        "-----------------\n| rollout/           |      |\n|    ep_rew_mean     | 22.4 |\n| time/              |      |\n"
        "|    fps             | 1234 |\n|    total_timesteps | 2048 |\n-----------------\n",
        [("rollout/ep_rew_mean", 2048, 22.4), ("time/fps", 2048, 1234)],
    ),
    "a table with its step in a group": (
        "| eprewmean          | 22.5 |\n| misc/nupdates      | 3    |\n-----\n",
        [("eprewmean", 3, 22.5)],
    ),
    "steps of workers": (
        "outer_step=1 inner_step=100 loss=5.5\nouter_step=2 inner_step=100 loss=4.5\n",
        [("loss", 1, 5.5), ("loss", 2, 4.5)],
    ),
    "scalar tensors": (
        "step 10 | loss: tensor(0.5, device='cuda:0', grad_fn=<NllLossBackward0>)\nstep 11 | loss: tensor(0.25, grad_fn=<MeanBackward0>)\n",
        [("loss", 10, 0.5), ("loss", 11, 0.25)],
    ),
    "a course's classic": (
        "Cost after iteration 0: 0.693\nCost after iteration 100: 0.5\n",
        [("Cost", 0, 0.693), ("Cost", 100, 0.5)],
    ),
    "JSON": (
        '{"step": 1, "loss": 0.5, "eval": {"acc": 0.25}, "timestamp": 1700000000.5, "done": false}\n{"step": 2, "loss": NaN}\n',
        [("loss", 1, 0.5), ("eval/acc", 1, 0.25), ("loss", 2, float("nan"))],
    ),
    "labels of a line": (
        "[Train] epoch 1 loss 0.5\n[Val] epoch 1 loss 0.25 acc 88.5%\nValidation - epoch: 2 | loss: 0.125\n",
        [("loss", 1, 0.5), ("val/loss", 1, 0.25), ("val/acc", 1, 88.5), ("val/loss", 2, 0.125)],
    ),
    "reinforcement learning": (
        "Episode 10\tLast reward: 30.00\tAverage reward: 15.25\nEpisode: 20, reward: -12.5, epsilon: 0.3\n",
        [("Last reward", 10, 30), ("Average reward", 10, 15.25), ("reward", 20, -12.5), ("epsilon", 20, 0.3)],
    ),
    "torch's quickstart": (
        "Epoch 1\n---------\nloss: 2.5  [   64/60000]\nloss: 2.25  [ 6464/60000]\nTest Error: \n Accuracy: 50.9%, Avg loss: 2.125 \n\nEpoch 2\nloss: 2.0  [   64/60000]\n",
        [
            ("loss", 64, 2.5),
            ("loss", 6464, 2.25),
            ("Accuracy", 6464, 50.9),
            ("Avg loss", 6464, 2.125),
            ("loss", 60064, 2),
        ],
    ),
    "values in a bar's text": (
        "loss=0.25 (0.5), lr=0.001:  40%|██  | 400/1000 [00:10<00:20, 30.0it/s]\rLoss: 0.125 | Avg: 0.2:  50%|██  | 500/1000 [00:10<00:20, 30.0it/s]\n",
        [("loss", 400, 0.25), ("lr", 400, 0.001), ("Loss", 500, 0.125), ("Avg", 500, 0.2)],
    ),
    "lines below a line with the epoch": (
        "Epoch: 01 | Time: 0m 12s\n\tTrain Loss: 0.5 | Train PPL:   1.75\n\t Val. Loss: 0.25 |  Val. PPL:   1.5\nEpoch 2/3:\n  Train Loss: 0.125\n",
        [
            ("Train Loss", 1, 0.5),
            ("Train PPL", 1, 1.75),
            ("Val. Loss", 1, 0.25),
            ("Val. PPL", 1, 1.5),
            ("Train Loss", 2, 0.125),
        ],
    ),
    "measures beside a labelled one": (
        "Train Epoch: 3 Loss: 0.5 Acc: 91.25%\nValidation Loss: 0.25 Acc: 90.00%, lr: 0.1\nEpoch 4: val_loss improved from 0.5 to 0.4\n",
        [("Loss", 3, 0.5), ("Acc", 3, 91.25), ("Validation Loss", 3, 0.25), ("val/Acc", 3, 90)],
    ),
    "CleanRL": (
        "global_step=1024, episodic_return=[23.]\nglobal_step=2048, episodic_return=24.0, episodic_length=24\nSPS: 1234\n",
        [("episodic_return", 1024, 23), ("episodic_return", 2048, 24), ("episodic_length", 2048, 24)],
    ),
    "OpenMMLab": (
        "2024-01-01 10:00:00,000 - mmdet - INFO - Epoch [1][50/7330]\tlr: 1.978e-03, eta: 1 day, 0:37:23, time: 0.5, loss: 2.5\n",
        [("lr", 50, 1.978e-3), ("time", 50, 0.5), ("loss", 50, 2.5)],
    ),
    "pycls": (
        '[12/26 10:00:00][INFO] t.py: 100: json_stats: {"epoch": "1/100", "iter": "10/200", "loss": 0.5}\n',
        [("loss", 10, 0.5)],
    ),
    "a measure without a step, repeated": (
        "loss: 0.5\nloss: 0.25\nloss: 0.1\n",
        [("loss", 0, 0.5), ("loss", 1, 0.25), ("loss", 2, 0.1)],
    ),
    "XGBoost's evaluation": (
        "[0]\teval-logloss:0.5\ttrain-error:0.25\n[1]\teval-logloss:0.25\ttrain-error:0.125\n",
        [("eval-logloss", 0, 0.5), ("train-error", 0, 0.25), ("eval-logloss", 1, 0.25), ("train-error", 1, 0.125)],
    ),
    "LightGBM's and CatBoost's evaluation": (
        "[10]\tvalid_0's auc: 0.75\tvalid_0's l2: 0.25\n11:\tlearn: 0.5\tbest: 0.5 (11)\ttotal: 47ms\tremaining: 4.6s\n",
        [
            ("valid_0's auc", 10, 0.75),
            ("valid_0's l2", 10, 0.25),
            ("learn", 11, 0.5),
            ("best", 11, 0.5),
            ("total", 11, 47),
        ],
    ),
    "a table with columns, in colours": (
        "  epoch    train_loss    valid_acc     dur\n-------  ------------  -----------  ------\n"
        "      1        \x1b[36m0.6905\x1b[0m       \x1b[32m0.6150\x1b[0m  0.0526\n      2        \x1b[36m0.6648\x1b[0m       0.6450  0.0315\n",
        [
            *[("train_loss", 1, 0.6905), ("valid_acc", 1, 0.615), ("dur", 1, 0.0526)],
            *[("train_loss", 2, 0.6648), ("valid_acc", 2, 0.645), ("dur", 2, 0.0315)],
        ],
    ),
    "scikit-learn's table": (
        "      Iter       Train Loss   Remaining Time \n         1           1.25            3.21m\n        10           0.5            1.90s\n",
        [("Train Loss", 1, 1.25), ("Remaining Time", 1, 3.21), ("Train Loss", 10, 0.5), ("Remaining Time", 10, 1.9)],
    ),
    "CSV and Markdown": (
        "epoch,train_loss,acc\n1,0.5,0.75\n2,nan,0.8\n| step | loss |\n|------|------|\n| 30 | 0.25 |\n",
        [
            ("train_loss", 1, 0.5),
            ("acc", 1, 0.75),
            ("train_loss", 2, float("nan")),
            ("acc", 2, 0.8),
            ("loss", 30, 0.25),
        ],
    ),
    "a table whose rows are bars": (
        "      Epoch    GPU_mem   box_loss   Instances\n"
        "        1/3         0G      1.166         213: 100%|██████████| 4/4 [00:10<00:00,  2.5s/it]\n",
        [("box_loss", 4, 1.166), ("Instances", 4, 213)],
    ),
    "numbers of episodes and steps": (
        "# of episode :20, avg score : 22.5\nn_episode :40, score : 9.5, eps : 7.9%\nStep # :1000, avg score : 22.1\nn_episodes: 50, score: 1\n",
        [("avg score", 20, 22.5), ("score", 40, 9.5), ("eps", 40, 7.9), ("avg score", 1000, 22.1), ("score", 1000, 1)],
    ),
    "rounds of clients": (
        "| Global Round : 0 | Local Epoch : 0 | [0/480 (0%)]\tLoss: 2.5\n| Global Round : 0 | Local Epoch : 0 | [100/480 (21%)]\tLoss: 2.25\n"
        "| Global Round : 0 | Local Epoch : 0 | [0/480 (0%)]\tLoss: 2.0\n",
        [("Loss", 0, 2.5), ("Loss", 100, 2.25), ("Loss", 480, 2)],
    ),
    "a bar that is left standing": (
        "  0%|          | 0/2 [00:00<?, ?it/s]Train Epoch: 1 [640/60000 (1%)]\tLoss: 2.5\nTrain Epoch: 1 [1280/60000 (2%)]\tLoss: 2.25\n",
        [("Loss", 640, 2.5), ("Loss", 1280, 2.25)],
    ),
    "a bar of validation": (
        "Train Epoch     #1:  50%|█████     | 100/200 [00:10<00:10, 10it/s, loss=2.5]\r"
        "Validate Epoch  #1: 100%|██████████| 50/50 [00:01<00:00, 50it/s, loss=2.0]\n",
        [("loss", 100, 2.5), ("val/loss", 50, 2)],
    ),
    "rich's bar": (
        "Epoch 0/1  ━━━━━━━━╸━━━━━━━ 10/50 0:00:01 • 0:00:04 12.5it/s v_num: 0.000 train/loss: 1.5\n"
        "Epoch 1/1  ━━━━━━━━━━━━━━━━ 50/50 0:00:04 • 0:00:00 12.5it/s v_num: 0.000 train/loss: 0.5\n",
        [("train/loss", 10, 1.5), ("train/loss", 50, 0.5)],
    ),
    "a bar with an accuracy's counts": (
        "Epoch: 1\n [>.......] Tot: 20ms | Loss: 2.5 | Acc: 10.0% (10/100)  1/391 \r [=>......] Tot: 40ms | Loss: 2.0 | Acc: 11.0% (22/200)  2/391 \n",
        [("Tot", 1, 20), ("Loss", 1, 2.5), ("Acc", 1, 10), ("Tot", 2, 40), ("Loss", 2, 2), ("Acc", 2, 11)],
    ),
    "two statistics of a measure": (
        "Last 10 episodes: mean/median reward 21.5/20.0\nLast 10 episodes: mean/median reward 31.5/30.0\n",
        [("mean reward", 0, 21.5), ("median reward", 0, 20), ("mean reward", 1, 31.5), ("median reward", 1, 30)],
    ),
    "splits below a line with the epoch": (
        "Epoch 01, Loss: 1.5\nTrain: 0.5, Val: 0.25, Test: 0.3\nTraining set accuracy 0.75\ntrain acc 0.5, test acc 0.25\n",
        [
            *[("Loss", 1, 1.5), ("Train", 1, 0.5), ("Val", 1, 0.25), ("Test", 1, 0.3)],
            *[("Training set accuracy", 1, 0.75), ("train acc", 1, 0.5), ("test acc", 1, 0.25)],
        ],
    ),
    "a number without a name": ("epoch 0: 45.5\nepoch 1: 60.25\n", [("value", 0, 45.5), ("value", 1, 60.25)]),
    "an index alone above its values": (
        "[epoch=1][batch=10/100]:\n\t Train loss/train/total: 5.5\n[epoch=1][batch=20/100]:\n\t Train loss/train/total: 4.5\n",
        [("Train loss/train/total", 10, 5.5), ("Train loss/train/total", 20, 4.5)],
    ),
    "a rate after a time": (
        "steps: 10 loss: 2.5 iter time (s): 0.5 samples/sec: 20.5\n",
        [("loss", 10, 2.5), ("iter time (s)", 10, 0.5), ("samples/sec", 10, 20.5)],
    ),
    "Optuna": (
        "[I 2024-01-02 03:04:05,123] Trial 3 finished with value: 0.85 and parameters: {'n_layers': 2, 'lr': 0.01}. Best is trial 0 with value: 0.9.\n",
        [("value", 3, 0.85)],
    ),
    "two measures that are printed once": (
        "│         test/acc          │    0.9     │\n│         test/loss         │    0.25    │\n",
        [("test/acc", 0, 0.9), ("test/loss", 0, 0.25)],
    ),
    "a measure that is printed once": (
        "Final accuracy: 0.97\nThe RMSE of prediction is: 0.5\n",
        [("Final accuracy", 0, 0.97), ("RMSE of prediction", 0, 0.5)],
    ),
}


@pytest.mark.parametrize("kind", FORMATS)
def test_printed_measurements_are_read_with_their_steps(kind: str) -> None:
    text, wanted = FORMATS[kind]
    found = read(text)
    assert [each[:2] for each in found] == [each[:2] for each in wanted]
    assert [each[2] for each in found] == pytest.approx([each[2] for each in wanted], nan_ok=True)


NO_METRICS = """\
Using device: cuda:0
torch 2.1.0+cu118, Python version: 3.11.7
Train: 50000, Val: 10000, Test: 10000
epoch finished
1 2
target loss 0.1
Finished Squared Error in: 0.25
Saving to runs/exp_3/epoch=5-val_loss=0.31.ckpt
lr: 0.1
batch_size: 64
Namespace(lr=0.1, epochs=10, seed=0, loss_weight=0.5)
{'lr': 0.1, 'epochs': 10, 'loss_scale': 2.0}
tensor([[0.1, 0.2], [0.3, 0.4]])
[0.1, 0.25, 0.5]
Epoch 3: saved 5 checkpoints
Step 10: loaded 60000 images
Starting epoch: 4
Loading checkpoint shards: 100%|██| 5/5 [00:01<00:00, 4it/s]
Downloading: 12%|█ | 1.2G/3.4G [00:10<00:20, 100MB/s]
  (0): Linear(in_features=10, out_features=2, bias=True)
    lr: 0.001
    eps: 1e-08
listening on 127.0.0.1:6006 at http://localhost:6006/
init tcp://10.0.0.1:29500
max steps: 1000
warmup step: 100, lr: 0.1
number of steps: 50 | lr: 0.1
number of parameters: 123.45M
2024-01-02 03:04:05 step 7 done in 0:00:12
train.py:50: UserWarning: step 3 loss=0.5 is deprecated
Traceback (most recent call last):
  File "train.py", line 10, in <module>
    step(1, loss=0.5)
RuntimeError: step 10: loss = 3
"""


def test_configs_versions_paths_times_tensors_and_tracebacks_are_no_metrics() -> None:
    assert read(NO_METRICS) == []
    assert read(NO_METRICS + "step 3: loss 0.5\n") == [("loss", 3, 0.5)]


TEXT = "".join(text for text, _ in [*FORMATS.values()][::3]) + NO_METRICS[-250:]
WHOLE = str(read(TEXT))


@drawn(cuts=some.lists(some.integers(0, 5_000), max_size=30))
def test_the_same_bytes_give_the_same_values_wherever_they_are_cut(cuts: list[int]) -> None:
    assert str(read(TEXT, *cuts)) == WHOLE


def test_progress_within_an_epoch_is_told_from_one_over_all_epochs() -> None:
    lines, found = PrintedLines(), []
    for line in ("Train Epoch: 1 [640/60000 (1%)]\tLoss: 2.5", "Train Epoch: 2 [0/60000 (0%)]\tLoss: 1.5"):
        lines.read(line, 0.0)
        found.append((lines.progress, lines.within))
    assert found == [((640, 60_000, "steps"), (1, 640)), ((0, 60_000, "steps"), (2, 0))]
    for line in ("epoch 1, step 900/5000, loss 2.5", "epoch 2, step 1200/5000, loss 1.5"):
        lines.read(line, 0.0)
    assert (lines.progress, lines.within) == ((1200, 5000, "steps"), None), "its steps go on"
    lines = PrintedLines()
    lines.read("Epoch 2/3 [10/50] loss 0.5", 0.0)
    assert (lines.progress, lines.within) == ((60, 150, "steps"), None), "it says how many epochs there are"
