"""Drives redis-py's lock line by line. README.md in the folder above lists the lines."""

import sys
import time
from urllib.parse import unquote

from redis import Redis

# A driver that was killed holds its locks for this long. Without it, redis-py's lock never ends.
LEASE_SECONDS = 10


def main():
    """Connects, and answers lines until the input ends."""
    if len(sys.argv) != 2:
        raise ValueError("the one argument is the server: host:port")
    client = Redis.from_url(f"redis://{sys.argv[1]}")
    client.ping()
    driver = Driver(client)
    say("ready")
    for line in sys.stdin:
        try:
            say(driver.answer(line.split()))
        except Exception as error:
            say_error(error)
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
            ("storm", 4): self.storm,
        }
        verb = verbs.get((words[0], len(words) - 1)) if words else None
        if verb is None:
            raise ValueError(f"no such line: {words}")
        return verb(unquote(words[1]), *words[2:])

    def acquire(self, name):
        self.take(name, blocking=True)
        return "held"

    def attempt(self, name):
        return "held" if self.take(name, blocking=False) else "busy"

    def take(self, name, blocking):
        lock = self.client.lock(name, timeout=LEASE_SECONDS)
        if not lock.acquire(blocking=blocking):
            return False
        self.locks[name] = lock
        return True

    def release(self, name):
        """Raises an error if the lock was lost before."""
        self.locks.pop(name).release()
        return "released"

    def storm(self, name, file, seconds, pause):
        """Counts its turns in the number in the file, which nothing but the lock protects."""
        turns = 0
        end = time.monotonic() + float(seconds)
        while time.monotonic() < end:
            self.acquire(name)
            try:
                increment(file)
            finally:
                self.release(name)
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
