#!/usr/bin/env python3
"""Works under a lock, and stops when the lock is lost: hold.py NAME [STEPS]

Ends with 0 only if the lock was held to the end.
"""

import json
import subprocess
import sys
import threading
import time


class Lost(Exception):
    """The lock was lost, or never acquired. The status is that of the program lock."""

    def __init__(self, status):
        super().__init__(f"lock ended with {status}")
        self.status = status


class Hold:
    """A held lock, as a context manager. `lost` is set when it is lost: look at it between two steps."""

    def __init__(self, name, *flags):
        self.call = ["lock", "hold", "--json", *flags, name]
        self.lost = threading.Event()
        self.token = None

    def __enter__(self):
        # When this process ends, however that happens, the pipe is closed, and the lock is released.
        self.process = subprocess.Popen(self.call, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for line in self.process.stdout:
            event = json.loads(line)
            if event["event"] == "held":
                self.token = event["token"]
                threading.Thread(target=self._watch, daemon=True).start()
                return self
        raise Lost(self.process.wait())

    def _watch(self):
        for line in self.process.stdout:
            if json.loads(line)["event"] == "lost":
                self.lost.set()
        # Also if the program lock was killed. After a normal release nothing waits for this any more.
        self.lost.set()

    def __exit__(self, *_):
        self.process.stdin.close()
        status = self.process.wait()
        if status != 0:
            raise Lost(status)


def main(name, steps="3"):
    try:
        with Hold(name) as hold:
            for step in range(1, int(steps) + 1):
                if hold.lost.is_set():
                    print("stopped: the lock is lost", flush=True)
                    break
                print(f"step {step} with token {hold.token}", flush=True)
                time.sleep(0.1)
    except Lost as lost:
        sys.exit(lost.status)


if __name__ == "__main__":
    main(*sys.argv[1:])
