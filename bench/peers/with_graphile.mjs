// with_graphile.mjs <database> <jobs> <pause in ms>: jobs of graphile-worker that do nothing, one at a time, in the process of their worker.
//
// Says when it is ready. Then, for every line that it reads, it adds so many jobs, each after a pause in which the worker has nothing to do,
// and prints how long each waited for its start, in ms.
import { createInterface } from "node:readline";
import { Logger, run } from "graphile-worker";

const [connectionString, jobs, pause] = process.argv.slice(2);
const started = new Map();
const runner = await run({
  connectionString,
  concurrency: 16,
  maxPoolSize: 17,
  noHandleSignals: true,
  logger: new Logger(() => () => {}),
  taskList: { noop: ({ number }) => void started.get(number)?.(performance.now()) },
});

async function once(number) {
  const start = new Promise((resolve) => started.set(number, resolve));
  const sent = performance.now();
  await runner.addJob("noop", { number });
  const waited = (await start) - sent;
  started.delete(number);
  return waited;
}

const idle = () => new Promise((resolve) => setTimeout(resolve, Number(pause)));
for (let number = 0; number < 20; number += 1) {
  await once(number);
}
console.log(JSON.stringify({ processes: [process.pid] }));
for await (const _ of createInterface({ input: process.stdin })) {
  const waits = [];
  for (let number = 0; number < Number(jobs); number += 1) {
    await idle();
    waits.push(await once(number));
  }
  console.log(JSON.stringify({ waits }));
}
process.exit(0);
