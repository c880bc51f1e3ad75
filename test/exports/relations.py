"""Graph networks: messages along edges, summed, averaged, maximised and weighted per node by scatters."""
import torch
from torch import nn

from spec import model, sized

WIDE = sized(64, 8)
SIZES = [{"nodes": sized(200, 12), "edges": sized(900, 30)}, {"nodes": 7, "edges": 19}]
DYNAMIC = {"x": {0: "nodes"}, "edges": {1: "edges"}}


def network(nodes, edges):
    return torch.randn(nodes, 16), torch.randint(0, nodes, (2, edges))


class Convolution(nn.Module):
    """GCN: sums of neighbours by the square roots of the degrees."""

    def __init__(self, a, b):
        super().__init__()
        self.linear = nn.Linear(a, b)

    def forward(self, x, edges):
        source, target = edges[0], edges[1]
        degree = torch.zeros_like(x[:, 0]).scatter_add(0, target, torch.ones_like(target, dtype=x.dtype)) + 1
        scale = degree.rsqrt()
        y = self.linear(x) * scale[:, None]
        sum = torch.zeros_like(y).index_add(0, target, y[source])
        return (sum + y) * scale[:, None]


class Attention(nn.Module):
    """GAT: a softmax over the edges into each node."""

    def __init__(self, a, b, heads=2):
        super().__init__()
        self.linear, self.heads = nn.Linear(a, b), heads
        self.left, self.right = (nn.Parameter(torch.randn(heads, b // heads) * 0.3) for _ in range(2))

    def forward(self, x, edges):
        source, target = edges[0], edges[1]
        y = self.linear(x).view(-1, self.heads, self.left.shape[1])
        score = nn.functional.leaky_relu((y * self.left).sum(-1)[source] + (y * self.right).sum(-1)[target], 0.2)
        at = target[:, None].expand_as(score)
        most = torch.full_like(y[:, :, 0], -1e30).scatter_reduce(0, at, score, "amax", include_self=True)
        weight = (score - most[target]).exp()
        total = torch.zeros_like(most).scatter_add(0, at, weight) + 1e-9
        weight = (weight / total[target])[:, :, None]
        message = weight * y[source]
        out = torch.zeros_like(y).scatter_add(0, target[:, None, None].expand_as(message), message)
        return out.flatten(1)


class Sage(nn.Module):
    """GraphSAGE: the mean or the maximum of the neighbours beside the node itself."""

    def __init__(self, a, b, reduce):
        super().__init__()
        self.own, self.other, self.reduce = nn.Linear(a, b), nn.Linear(a, b), reduce

    def forward(self, x, edges):
        source, target = edges[0], edges[1]
        at = target[:, None].expand(-1, x.shape[1])
        near = torch.zeros_like(x).scatter_reduce(0, at, x[source], self.reduce, include_self=False)
        return self.own(x) + self.other(near)


class Edges(nn.Module):
    """A message of both ends by a perceptron, a gated update, and the sum over all nodes."""

    def __init__(self, a, b):
        super().__init__()
        self.message = nn.Sequential(nn.Linear(2 * a, b), nn.ReLU(), nn.Linear(b, b))
        self.update = nn.GRUCell(b, a)

    def forward(self, x, edges):
        source, target = edges[0], edges[1]
        message = self.message(torch.cat([x[source], x[target]], 1))
        sum = torch.zeros(x.shape[0], message.shape[1], dtype=x.dtype).index_add(0, target, message)
        return self.update(sum, x)


class Stack(nn.Module):
    def __init__(self, *layers):
        super().__init__()
        self.layers = nn.ModuleList(layers)

    def forward(self, x, edges):
        for i, layer in enumerate(self.layers):
            x = layer(x if i == 0 else x.relu(), edges)
        return x, x.mean(0)


def graph(name):
    return model(name, network, SIZES, ["x", "edges"], ["y", "mean"], dynamic=DYNAMIC)


@graph("gcn")
def gcn():
    return Stack(Convolution(16, WIDE), Convolution(WIDE, WIDE))


@graph("gat")
def gat():
    return Stack(Attention(16, WIDE), Attention(WIDE, WIDE))


@graph("sage_mean")
def sage_mean():
    return Stack(Sage(16, WIDE, "mean"), Sage(WIDE, WIDE, "mean"))


@graph("sage_max")
def sage_max():
    return Stack(Sage(16, WIDE, "amax"), Sage(WIDE, WIDE, "amax"))


@graph("edge_messages")
def edge_messages():
    return Stack(Edges(16, WIDE), Edges(16, WIDE))
