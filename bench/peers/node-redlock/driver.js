// Drives node-redlock on one server, with its defaults. README.md in the folder above describes the lines.
"use strict";

const readline = require("node:readline");
const { default: Redis } = require("ioredis");
const { default: Redlock } = require("redlock");

const TTL_MILLIS = 30_000;
// How long an answer may take after the input has ended: the process that wants it may be gone.
const GRACE_MILLIS = 10_000;

class Driver {
  constructor(redlock, names) {
    this.redlock = redlock;
    this.names = names;
    this.held = null;
  }

  async obey(order) {
    const words = order.trim().split(" ");
    switch (`${words[0]} ${words.length - 1}`) {
      case "acquire 0":
        this.held = await this.redlock.acquire([this.names[0]], TTL_MILLIS);
        return `granted ${now()}`;
      case "release 0":
        return this.release();
      case "cycle 1":
        return this.cycle(BigInt(words[1]));
      default:
        throw new Error(`no such order: ${order}`);
    }
  }

  async release() {
    const began = now();
    const held = this.held;
    this.held = null;
    if (held !== null) {
      await held.release();
    }
    return `released ${began}`;
  }

  // Takes and releases all names again and again, at the same time.
  async cycle(nanos) {
    const end = now() + nanos;
    const works = await Promise.allSettled(this.names.map((name) => this.work(name, end)));
    const failed = works.find((work) => work.status === "rejected");
    if (failed !== undefined) {
      throw failed.reason;
    }
    return ["competed", ...works.map((work) => work.value)].join(" ");
  }

  // Returns "2:10,20,30": two cycles in time, and the length of three, in nanoseconds.
  async work(name, end) {
    const cycles = [];
    let inTime = 0;
    for (let began = now(); began < end; ) {
      const held = await this.redlock.acquire([name], TTL_MILLIS);
      await held.release();
      const done = now();
      cycles.push(done - began);
      if (done <= end) {
        inTime += 1;
      }
      began = done;
    }
    return `${inTime}:${cycles.join(",")}`;
  }
}

// Returns the time of the machine's monotonic clock, in nanoseconds. The benchmark reads the same clock.
function now() {
  return process.hrtime.bigint();
}

function say(reply) {
  process.stdout.write(`${reply}\n`);
}

function oneLine(error) {
  return String(error).replace(/\s+/g, " ");
}

async function serve() {
  const input = readline.createInterface({ input: process.stdin });
  input.once("close", () => setTimeout(() => process.exit(1), GRACE_MILLIS).unref());
  const lines = input[Symbol.asyncIterator]();
  const next = async () => {
    const line = await lines.next();
    if (line.done) {
      throw new Error("the input has ended before the subject, the names and the URL");
    }
    return line.value;
  };
  await next();
  const names = (await next()).split(" ");
  const client = new Redis(await next());
  // Each command fails by itself. Without this, the client prints every attempt to connect.
  client.on("error", () => {});
  await client.ping();
  const redlock = new Redlock([client]);
  const driver = new Driver(redlock, names);
  say("ready");
  for (let line = await lines.next(); !line.done; line = await lines.next()) {
    say(await driver.obey(line.value).catch((error) => `failed ${oneLine(error)}`));
  }
}

// The client would try to connect for ever, and so keep this process alive.
serve().then(
  () => process.exit(0),
  (error) => {
    say(`failed ${oneLine(error)}`);
    process.exit(1);
  },
);
