#!/usr/bin/env node
// Works under a lock, and stops when the lock is lost: hold.mjs NAME [STEPS]
// Ends with 0 only if the lock was held to the end.

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';

// Acquires the lock, calls work with its token and an AbortSignal that fires on loss, and returns the status of lock.
async function withLock(name, work) {
  // When this process ends, however that happens, the pipe is closed, and the lock is released.
  const holder = spawn('lock', ['hold', '--json', name], { stdio: ['pipe', 'pipe', 'inherit'] });
  // 'close' comes when the last line has been read, too.
  const ended = once(holder, 'close');
  const lost = new AbortController();
  let working = Promise.resolve();
  const lines = createInterface({ input: holder.stdout });
  lines.on('line', (line) => {
    const { event, token } = JSON.parse(line);
    if (event === 'held') working = work(token, lost.signal).finally(() => holder.stdin.end());
    if (event === 'lost') lost.abort();
  });
  // Also if the program lock was killed. After a normal release the work is done already.
  lines.on('close', () => lost.abort());
  const [status] = await ended;
  await working;
  return status ?? 1;
}

const [name, steps = '3'] = process.argv.slice(2);
process.exitCode = await withLock(name, async (token, lost) => {
  for (let step = 1; step <= Number(steps); step += 1) {
    if (lost.aborted) {
      console.log('stopped: the lock is lost');
      return;
    }
    console.log(`step ${step} with token ${token}`);
    await sleep(100);
  }
});
