"""Hidden states of a running network, layer by layer; what lies behind the last one is not run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch


def blocks_of(model: Any, count: int) -> Any:
    """Return the list of the model's layers, or None where it has no plain list."""
    from torch.nn import ModuleList

    lists = [m for m in model.modules() if isinstance(m, ModuleList) and len(m) == count]
    return lists[0] if len(lists) == 1 and count > 0 else None


class _Reached(Exception):
    """The highest wanted layer is computed: a signal, not an error."""


class Tap:
    """Takes hidden states off a running model and stops it behind the last wanted one."""

    def __init__(self, blocks: Any, layers: list[int], into: dict[int, torch.Tensor]) -> None:
        self._hooks = []
        self._into, self._last = into, layers[-1]
        for layer in layers:
            if layer == 0:
                self._hooks.append(
                    blocks[0].register_forward_pre_hook(self._before, with_kwargs=True)
                )
            else:
                self._hooks.append(blocks[layer - 1].register_forward_hook(self._after(layer)))

    def _before(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._take(0, args[0] if args else kwargs["hidden_states"])

    def _after(self, layer: int) -> Any:
        def hook(module: Any, args: Any, output: Any) -> None:
            self._take(layer, output[0] if isinstance(output, tuple) else output)

        return hook

    def _take(self, layer: int, state: torch.Tensor) -> None:
        self._into[layer] = state
        if layer == self._last:
            raise _Reached

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, err: BaseException | None, trace: Any) -> bool:
        for hook in self._hooks:
            hook.remove()
        return isinstance(err, _Reached)
