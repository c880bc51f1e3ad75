"""Scripted modules: a loop whose turns the data decide, branches, shapes that depend on values."""
import torch
from torch import nn

from spec import model


class Halve(nn.Module):
    """Halves until the sum is small, counts the turns, and takes one of two layers."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(16, 16), nn.Linear(16, 16)

    def forward(self, x):
        turns = 0
        while bool(x.abs().sum() > 1.0):
            x = x * 0.5
            turns += 1
        if turns % 2 == 0:
            y = self.a(x)
        else:
            y = self.b(x).relu()
        return y, torch.tensor(turns)


@model("scripted_loop", lambda rows: (torch.randn(rows, 16) * 8,), [{"rows": 4}, {"rows": 1}, {"rows": 33}], ["x"],
       ["y", "turns"], dynamic={"x": {0: "rows"}}, exporters=("legacy",))
def scripted_loop():
    return torch.jit.script(Halve())


class Collect(nn.Module):
    """A list that grows in a loop, with a break."""

    def forward(self, x):
        kept = [x]
        for i in range(x.shape[0]):
            if bool(x[i].sum() < -3.0):
                break
            kept.append(kept[-1] + x[i])
        return torch.stack(kept).sum(0), torch.cat(kept)


@model("scripted_list", lambda rows: (torch.randn(rows, 5),), [{"rows": 4}, {"rows": 1}, {"rows": 21}], ["x"],
       ["sum", "all"], dynamic={"x": {0: "rows"}}, exporters=("legacy",))
def scripted_list():
    return torch.jit.script(Collect())


class Chosen(nn.Module):
    """Elements that the data choose: their number is known in the run only."""

    def forward(self, x):
        positive = x[x > 0]
        at = torch.nonzero(x < -1)
        return positive.sort().values, at, torch.unique(torch.round(x)), torch.where(x > 1, x, torch.zeros_like(x)).topk(2).values


@model("chosen_elements", lambda rows: (torch.randn(rows, 9) * 2,), [{"rows": 6}, {"rows": 1}, {"rows": 40}], ["x"],
       ["positive", "at", "unique", "top"], dynamic={"x": {0: "rows"}})
def chosen_elements():
    return Chosen()


class Cond(nn.Module):
    """torch.cond and torch.while_loop: what the dynamo exporter makes branches and loops of."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(16, 16), nn.Linear(16, 16)

    def forward(self, x):
        y = torch.cond(x.sum() > 0, lambda v: self.a(v), lambda v: self.b(v).relu(), (x,))
        return y * 2


@model("cond", lambda rows: (torch.randn(rows, 16) + 0.1 * rows - 1,), [{"rows": 4}, {"rows": 2}, {"rows": 33}], ["x"], ["y"],
       dynamic={"x": {0: "rows"}}, exporters=("dynamo",))
def cond():
    return Cond()
