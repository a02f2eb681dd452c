"""Work for several processes: score and evaluate ahead, so that a long page needs no patience.

A task is one metric under protocols that share their captions, or one metric of an analysis. Its
scores are kept in the cache folder; evaluations come back to the process that asked.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from multiprocessing import get_context
from typing import Any

from captious import registry, settings
from captious.engine.executors import threads_of_children
from captious.errors import CaptiousError
from captious.judgements import protocols
from captious.papers.bench import Bench
from captious.papers.catalogue import Demand, find
from captious.progress import Progress
from captious.settings import Settings

Done = dict[str, Any]
_HEAVY = ("torch", "spacy")


@dataclass(frozen=True)
class Task:
    """One metric under protocols, or in an analysis."""

    spec: str
    protocols: tuple[str, ...] = ()
    analysis: tuple[str, str] | None = None
    objects: str = ""


def tasks(demands: Sequence[Demand], analysed: Sequence[tuple[tuple[str, str], str]]) -> list[Task]:
    """Gather demands (metric, protocol, source of labels) that need the same scores.

    What takes longest comes first; what is made of other metrics last, when these are kept.
    """
    groups: dict[tuple[str, str, str, int | None, int], list[str]] = {}
    for spec, name, objects in dict.fromkeys(demands):
        chosen = protocols.get(name)
        key = (spec, objects, chosen.set, chosen.references, chosen.draws)
        groups.setdefault(key, []).append(name)
    gathered = [Task(key[0], tuple(names), objects=key[1]) for key, names in groups.items()]
    gathered += [Task(spec, analysis=name) for name, spec in analysed]
    return sorted(gathered, key=_order)


def _order(task: Task) -> tuple[bool, bool, bool, str]:
    modules: dict[str, str] = {}
    made_of_others = False
    try:
        metric = registry.create(task.spec)
        modules, made_of_others = metric.modules, bool(metric.inputs)
    except CaptiousError:
        pass  # where it is run, the page says so
    large = any(name.startswith("flickr8k-cf") for name in task.protocols)
    return made_of_others, not any(m in modules for m in _HEAVY), not large, task.spec


def ahead(bench: Bench, todo: Sequence[Task], jobs: int, tell: Callable[[str], None]) -> None:
    """Do all tasks in ``jobs`` processes; the bench then has their evaluations."""
    if jobs < 2 or not bench.store or not todo:
        return
    share = replace(settings.get(), threads=max(1, settings.get().threads // jobs), progress=False)
    with (
        threads_of_children(1),  # the children are as many as the cores
        ProcessPoolExecutor(jobs, get_context("spawn"), _start, (share, bench.fresh())) as pool,
        Progress("scoring", len(todo), "tasks") as bar,
    ):
        futures = {pool.submit(_work, task): task for task in todo}
        for number, future in enumerate(as_completed(futures), 1):
            task = futures[future]
            for name, (results, scores) in future.result().items():
                bench.keep(task.spec, name, task.objects, results, scores)
            bar.advance(note=task.spec)
            if number % max(1, len(todo) // 10) == 0:
                tell(f"scored {number} of {len(todo)}")


# -- in the other process ----------------------------------------------------------------------

_here: dict[str, Any] = {}


def _start(chosen: Settings, bench: Bench) -> None:
    active = settings.use(chosen)
    active.__enter__()  # for the life of this process
    _here.update(bench=bench, settings=active)


def _work(task: Task) -> Done:
    bench: Bench = _here["bench"]
    try:
        if task.analysis is not None:
            analyse = find(*task.analysis).analysis
            if analyse is not None:
                analyse(bench, only=(task.spec,))  # leaves its scores in the cache
            return {}
        evaluations = {name: bench.result(task.spec, name, task.objects) for name in task.protocols}
    except CaptiousError:
        return {}  # the asking process meets it again, where the page says so
    return {
        name: (evaluation.results, evaluation.scores) for name, evaluation in evaluations.items()
    }
