"""Every kind of edit as a few lines of PyTorch: float32 in between, rounded once."""

from collections.abc import Callable, Mapping, Sequence

import torch

#: What an edit makes of the selected part, in float32.
Formula = Callable[[torch.Tensor], torch.Tensor]
#: Indices along dimensions of the value; a dimension that is not there is whole.
Part = Mapping[int, Sequence[int]]


def on(part: Part, formula: Formula) -> Callable[[torch.Tensor], None]:
    """The edit of a part of a value, in place."""
    def edit(value: torch.Tensor) -> None:
        indices = mesh(value, part)
        value[indices] = formula(value[indices].float()).to(value.dtype)

    return edit


def mesh(value: torch.Tensor, part: Part) -> tuple[torch.Tensor, ...]:
    """Indices that take the part of a value with all its dimensions."""
    chosen = [torch.tensor(part.get(i, range(size))) % size for i, size in enumerate(value.shape)]
    return torch.meshgrid(*chosen, indexing="ij")


def unit(direction: torch.Tensor) -> torch.Tensor:
    direction = direction.float()
    return direction / direction.norm()


def along(x: torch.Tensor, direction: torch.Tensor) -> torch.Tensor:
    return (x * direction).sum(-1, keepdim=True)


def set_(value: torch.Tensor) -> Formula:
    return lambda x: torch.as_tensor(value).float().expand_as(x)


def add(value: torch.Tensor, scale: float = 1.0) -> Formula:
    return lambda x: x + torch.as_tensor(value).float() * scale


def scale(factor: torch.Tensor) -> Formula:
    return lambda x: x * torch.as_tensor(factor).float()


def project_out(direction: torch.Tensor, keep: float = 0.0) -> Formula:
    u = unit(direction)
    return lambda x: x - (1 - keep) * along(x, u) * u


def clamp_projection(direction: torch.Tensor, low: float | None, high: float | None) -> Formula:
    u = unit(direction)
    return lambda x: x + (along(x, u).clamp(low, high) - along(x, u)) * u


def swap(source: torch.Tensor, target: torch.Tensor, both: bool) -> Formula:
    s, t = unit(source), unit(target)

    def formula(x: torch.Tensor) -> torch.Tensor:
        swapped = x - along(x, s) * s + along(x, s) * t
        return swapped - along(x, t) * t + along(x, t) * s if both else swapped

    return formula


def clamp(low: float | None, high: float | None) -> Formula:
    return lambda x: x.clamp(low, high)


def noise(values: torch.Tensor, scale: float) -> Formula:
    """values: standard normal, as read back from the server."""
    return lambda x: x + values * scale


def subspace(basis: torch.Tensor, source: torch.Tensor, mask: torch.Tensor | None) -> Formula:
    basis = basis.float().contiguous()

    def formula(x: torch.Tensor) -> torch.Tensor:
        difference = (source.float() - x) @ basis
        return x + torch.nn.functional.linear(difference if mask is None else difference * mask, basis)

    return formula


def encode(x: torch.Tensor, dictionary: Mapping[str, torch.Tensor], activation: str, chosen: Sequence[int] = slice(None)) -> torch.Tensor:
    """Features of x, all or those chosen; k of a top-k is 3."""
    activity = torch.nn.functional.linear(x, dictionary["encoder_weight"][chosen]) + dictionary["encoder_bias"][chosen]
    if activation == "jump_relu":
        return torch.where(activity > dictionary["threshold"][chosen], activity, 0.0)
    if activation == "top_k":
        largest = torch.zeros_like(activity).scatter(-1, activity.topk(3, -1).indices, 1.0)
        return torch.relu(activity) * largest
    return torch.relu(activity)


def decode(features: torch.Tensor, dictionary: Mapping[str, torch.Tensor]) -> torch.Tensor:
    return features @ dictionary["decoder_weight"] + dictionary["decoder_bias"]


def dictionary(weights: Mapping[str, torch.Tensor], activation: str, changes: Mapping[int, Formula], drop_error: bool = False,
               encoded: torch.Tensor | None = None) -> Formula:
    """changes: of each feature edited. encoded: what is encoded instead of x."""
    edited = list(changes)

    def formula(x: torch.Tensor) -> torch.Tensor:
        source = x if encoded is None else encoded.float()
        if drop_error:
            features = encode(source, weights, activation)
            for feature, change in changes.items():
                features[..., feature] = change(features[..., feature])
            return decode(features, weights)
        # A top-k looks at all features; otherwise those that are not edited need not be known.
        before = encode(source, weights, activation)[..., edited] if activation == "top_k" else encode(source, weights, activation, edited)
        after = torch.stack([changes[feature](before[..., i]) for i, feature in enumerate(edited)], -1)
        return x + (after - before) @ weights["decoder_weight"][edited]

    return formula
