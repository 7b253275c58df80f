"""Drives kazoo's lock line by line. README.md in the folder above lists the lines."""

import sys
import time

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

# A driver that was killed holds its locks for this long.
SESSION_SECONDS = 10
# kazoo's lock counts only its own nodes, unless it is told what precedes the number in other nodes' names.
# This is what Curator and this project put there.
OTHERS = ["-lock-"]


def main():
    """Connects, and answers lines until the input ends."""
    if len(sys.argv) != 2:
        raise ValueError("the one argument is the servers: host:port,…")
    client = KazooClient(hosts=sys.argv[1], timeout=SESSION_SECONDS)
    client.start(timeout=SESSION_SECONDS)
    driver = Driver(client)
    say("ready")
    for line in sys.stdin:
        try:
            say(driver.answer(line.split()))
        except Exception as error:
            say_error(error)
    client.stop()
    client.close()


class Driver:
    def __init__(self, client):
        self.client = client
        self.locks = {}

    def answer(self, words):
        verbs = {
            ("acquire", 1): self.acquire,
            ("try", 1): self.attempt,
            ("release", 1): self.release,
            ("queue", 1): self.queue,
            ("storm", 4): self.storm,
        }
        verb = verbs.get((words[0], len(words) - 1)) if words else None
        if verb is None:
            raise ValueError(f"no such line: {words}")
        return verb(*words[1:])

    def acquire(self, path):
        self.take(path, blocking=True)
        return "held"

    def attempt(self, path):
        return "held" if self.take(path, blocking=False) else "busy"

    def take(self, path, blocking):
        """Takes the lock. A lock of kazoo needs a directory that stays; Curator's are removed when they are empty."""
        while True:
            lock = self.client.Lock(path, extra_lock_patterns=OTHERS)
            try:
                if not lock.acquire(blocking=blocking):
                    return False
                self.locks[path] = lock
                return True
            except NoNodeError:
                # From here on kazoo makes the directory.
                pass

    def release(self, path):
        if path not in self.locks or not self.locks.pop(path).release():
            raise ValueError(f"{path} is not held")
        return "released"

    def queue(self, path):
        try:
            return f"queue {len(self.client.get_children(path))}"
        except NoNodeError:
            return "queue 0"

    def storm(self, path, file, seconds, pause):
        """Counts its turns in the number in the file, which nothing but the lock protects."""
        turns = 0
        end = time.monotonic() + float(seconds)
        while time.monotonic() < end:
            self.acquire(path)
            try:
                increment(file)
            finally:
                self.release(path)
            turns += 1
            time.sleep(float(pause))
        return f"done {turns}"


def increment(file):
    """Reads the number, pauses so that an overlap would be seen, and overwrites the number."""
    with open(file, encoding="ascii") as counter:
        number = int(counter.read())
    time.sleep(0.001)
    with open(file, "r+", encoding="ascii") as counter:
        counter.write(f"{number + 1:10}\n")


def say(line):
    print(line, flush=True)


def say_error(error):
    say("error " + " ".join(repr(error).split()))


if __name__ == "__main__":
    try:
        main()
    except Exception as error:
        say_error(error)
        sys.exit(1)
