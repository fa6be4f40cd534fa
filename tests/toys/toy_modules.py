"""Networks of the toy models: one that works, and the ways in which one can't."""

from __future__ import annotations

import os
import signal
import time

import torch
from torch import nn


class Conv(nn.Module):
    def __init__(self, task, width=4):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv1d(task.in_channels, width, 3, padding=1, padding_mode="circular"),
            nn.Dropout(0.1),
            nn.Conv1d(width, task.out_channels, 1),
        )

    def forward(self, x):
        return self.net(x)


class Slow(Conv):
    def __init__(self, task, seconds):
        super().__init__(task)
        self.seconds = seconds

    def forward(self, x):
        time.sleep(self.seconds)
        return super().forward(x)


class Plain(nn.Module):
    """Without dropout: what several processes can train together."""

    def __init__(self, task, seconds):
        super().__init__()
        self.seconds = seconds
        self.net = nn.Conv1d(task.in_channels, task.out_channels, 3, padding=1, padding_mode="circular")

    def forward(self, x):
        time.sleep(self.seconds)
        return self.net(x)


class Deserter(Plain):
    """Its second rank dies once all have met."""

    def forward(self, x):
        if torch.distributed.is_initialized() and torch.distributed.get_rank() == 1:
            os.kill(os.getpid(), signal.SIGSEGV)
        return super().forward(x)


class Segfault(Conv):
    def forward(self, x):
        os.kill(os.getpid(), signal.SIGSEGV)


class Killed(Conv):
    def forward(self, x):
        os.kill(os.getpid(), signal.SIGKILL)


class Hang(Conv):
    def forward(self, x):
        time.sleep(3600)


class Raise(Conv):
    def forward(self, x):
        raise RuntimeError("the toy network broke")


class Memory(Conv):
    def forward(self, x):
        return x + torch.ones(1 << 50)[:16]


class Diverge(Conv):
    def forward(self, x):
        return super().forward(x) * float("inf")


class Prints(Conv):
    def forward(self, x):
        print("noise on stdout")
        return super().forward(x)
