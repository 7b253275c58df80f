// Drives node-redlock on one server line by line. README.md in the folder above lists the lines.
"use strict";

const fs = require("node:fs/promises");
const readline = require("node:readline");
const { setTimeout: sleep } = require("node:timers/promises");
const { default: Redis } = require("ioredis");
const { default: Redlock, ExecutionError, ResourceLockedError } = require("redlock");

// A driver that was killed holds its locks for this long.
const LEASE_MILLIS = 10_000;
// As node-redlock's README has it: it tries until it has the lock.
const WITHOUT_LIMIT = { retryCount: -1 };
const ONCE = { retryCount: 0 };

class Driver {
  constructor(redlock) {
    this.redlock = redlock;
    this.held = new Map();
  }

  async answer(words) {
    const name = decodeURIComponent(words[1] ?? "");
    switch (`${words[0]} ${words.length - 1}`) {
      case "acquire 1":
        return this.acquire(name);
      case "try 1":
        return this.attempt(name);
      case "release 1":
        return this.release(name);
      case "storm 4":
        return this.storm(name, words[2], 1000 * Number(words[3]), 1000 * Number(words[4]));
      default:
        throw new Error(`no such line: ${words}`);
    }
  }

  async acquire(name) {
    this.held.set(name, await this.redlock.acquire([name], LEASE_MILLIS, WITHOUT_LIMIT));
    return "held";
  }

  async attempt(name) {
    try {
      this.held.set(name, await this.redlock.acquire([name], LEASE_MILLIS, ONCE));
      return "held";
    } catch (error) {
      if (await isLocked(error)) {
        return "busy";
      }
      throw error;
    }
  }

  // Throws if the lock was lost before.
  async release(name) {
    const lock = this.held.get(name);
    this.held.delete(name);
    if (lock === undefined) {
      throw new Error(`${name} is not held`);
    }
    await this.redlock.release(lock, ONCE);
    return "released";
  }

  // Counts its turns in the number in the file, which nothing but the lock protects.
  async storm(name, file, millis, pause) {
    let turns = 0;
    for (const end = performance.now() + millis; performance.now() < end; turns += 1) {
      await this.acquire(name);
      try {
        await increment(file);
      } finally {
        await this.release(name);
      }
      await sleep(pause);
    }
    return `done ${turns}`;
  }
}

// Returns whether the server has said that the lock is held. Any other error is one.
async function isLocked(error) {
  if (!(error instanceof ExecutionError)) {
    return false;
  }
  const attempts = await Promise.all(error.attempts);
  const errors = attempts.flatMap((attempt) => [...attempt.votesAgainst.values()]);
  return errors.every((each) => each instanceof ResourceLockedError);
}

// Reads the number, pauses so that an overlap would be seen, and overwrites the number.
async function increment(file) {
  const number = Number.parseInt(await fs.readFile(file, "ascii"), 10);
  await sleep(1);
  const counter = await fs.open(file, "r+");
  try {
    await counter.write(`${String(number + 1).padStart(10)}\n`, 0);
  } finally {
    await counter.close();
  }
}

function say(line) {
  process.stdout.write(`${line}\n`);
}

function oneLine(error) {
  return String(error).replace(/\s+/g, " ");
}

// Connects, and answers lines until the input ends.
async function serve() {
  if (process.argv.length !== 3) {
    throw new Error("the one argument is the server: host:port");
  }
  const client = new Redis(`redis://${process.argv[2]}`);
  // Each command fails by itself. Without this, the client prints every attempt to connect.
  client.on("error", () => {});
  await client.ping();
  const driver = new Driver(new Redlock([client]));
  say("ready");
  for await (const line of readline.createInterface({ input: process.stdin })) {
    say(await driver.answer(line.trim().split(" ")).catch((error) => `error ${oneLine(error)}`));
  }
}

// The client would try to connect for ever, and so keep this process alive.
serve().then(
  () => process.exit(0),
  (error) => {
    say(`error ${oneLine(error)}`);
    process.exit(1);
  },
);
