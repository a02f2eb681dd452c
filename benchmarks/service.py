"""Fifty clients, one caption per request, for a minute: ``python benchmarks/service.py``.

Starts ``captious serve --api-only`` on a free port and asks it for BLEU, ROUGE-L and CIDEr-D of
single captions with five references each, from 50 threads at once. Prints errors, requests per
second, latencies as the clients see them, and the memory of the server over time. Clients and
server share the machine, so what the clients cost is inside.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import threading
import time

import numpy as np
from scorer import sentence

import captious

METRICS = ["bleu", "rouge_l", "cider_d"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=60.0)
    args = parser.parse_args()
    command = [sys.executable, "-m", "captious", "serve", "--api-only", "--port", "0"]
    server = subprocess.Popen(
        [*command, "-m", ",".join(METRICS)], stderr=subprocess.PIPE, text=True
    )
    try:
        url = server.stderr.readline().split("listening on ")[1].split()[0]
        _measure(url, server.pid, args.clients, args.seconds)
    finally:
        server.terminate()
        print(f"server stopped with exit code {server.wait(30)}")


def _measure(url: str, pid: int, clients: int, seconds: float) -> None:
    took: list[list[float]] = [[] for _ in range(clients)]
    errors: list[str] = []
    end = time.monotonic() + seconds

    def ask(number: int) -> None:
        rng = random.Random(number)
        client = captious.Client(url, METRICS)
        while time.monotonic() < end:
            captions, references = [sentence(rng)], [[sentence(rng) for _ in range(5)]]
            begin = time.perf_counter()
            try:
                scores = client(captions, references)
                if not 0 <= scores["bleu_1"][0] <= 1:
                    errors.append(f"bleu_1 = {scores['bleu_1'][0]}")
            except captious.CaptiousError as err:
                errors.append(str(err))
            took[number].append(time.perf_counter() - begin)

    threads = [threading.Thread(target=ask, args=(n,)) for n in range(clients)]
    for thread in threads:
        thread.start()
    memory = []
    while any(thread.is_alive() for thread in threads):
        time.sleep(min(10.0, seconds / 6))
        memory.append(_resident(pid))
    all_ms = 1000 * np.array([t for mine in took for t in mine])
    p50, p95, p99 = np.percentile(all_ms, [50, 95, 99])
    print(f"{clients} clients, {len(all_ms):,} requests in {seconds:g} s, {len(errors)} errors")
    rate = len(all_ms) / seconds
    print(f"{rate:,.0f} requests/s; p50 {p50:.1f}, p95 {p95:.1f}, p99 {p99:.1f} ms")
    print(f"server's memory over time (MB): {', '.join(f'{m:.0f}' for m in memory)}")
    for error in errors[:5]:
        print("error:", error)


def _resident(pid: int) -> float:
    with open(f"/proc/{pid}/status") as file:
        line = next(line for line in file if line.startswith("VmRSS"))
    return int(line.split()[1]) / 1024


if __name__ == "__main__":
    main()
