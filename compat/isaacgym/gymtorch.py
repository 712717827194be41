"""Tensors of the simulation are torch tensors already; both directions only check and pass on.

root = gymtorch.wrap_tensor(gym.acquire_actor_root_state_tensor(sim))
gym.set_actor_root_state_tensor(sim, gymtorch.unwrap_tensor(root))
"""

import torch


def wrap_tensor(gym_tensor, offsets=None, counts=None):
    """Return the torch tensor that shares its memory with `gym_tensor`, or the block [offsets, offsets + counts)."""
    if offsets is None and counts is None:
        return gym_tensor
    starts = offsets or [0] * gym_tensor.ndim
    sizes = counts or [size - start for size, start in zip(gym_tensor.shape, starts, strict=True)]
    return gym_tensor[tuple(slice(start, start + size) for start, size in zip(starts, sizes, strict=True))]


def unwrap_tensor(torch_tensor):
    """Return a torch tensor for a setter. Raises TypeError or ValueError if its memory is not one plain block."""
    if not isinstance(torch_tensor, torch.Tensor):
        raise TypeError(f"unwrap_tensor takes a torch tensor, not {type(torch_tensor).__name__}")
    if not torch_tensor.is_contiguous():
        raise ValueError("unwrap_tensor: the tensor is not contiguous; pass tensor.contiguous()")
    return torch_tensor
