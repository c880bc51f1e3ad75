"""Recorded runs of a session. In: events. Out: a file in the trace format of Chrome's about:tracing and Perfetto."""
from __future__ import annotations

import contextlib
import json
import os
import threading
import time
from typing import Any, Dict, Iterator, List


class Profile:
    def __init__(self, prefix: str) -> None:
        self.prefix, self.start = prefix, time.perf_counter_ns()
        self.stamp = time.strftime("%Y-%m-%d_%H-%M-%S")
        self.events: List[Dict[str, Any]] = []

    @contextlib.contextmanager
    def event(self, name: str) -> Iterator[None]:
        begin = time.perf_counter_ns()
        try:
            yield
        finally:
            self.events.append({"cat": "Session", "pid": os.getpid(), "tid": threading.get_native_id(), "ph": "X", "name": name,
                                "ts": (begin - self.start) // 1000, "dur": (time.perf_counter_ns() - begin) // 1000, "args": {}})

    def write(self) -> str:
        path = f"{self.prefix}_{self.stamp}.json".replace("__", "_")
        with open(path, "w", encoding="utf-8") as f:
            json.dump(self.events, f)
        return path
