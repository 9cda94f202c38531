// Does what it is told with @openclaw/fs-safe in its strictest mode, and says
// what that cost: a line `read 100 path`, `list 100 path`, `replace 100 path` or
// `extract 1 path` on standard input is answered with microseconds per operation,
// of CPU and on the wall.
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { configureFsSafeNative, root } from "@openclaw/fs-safe";
import { extractArchive } from "@openclaw/fs-safe/archive";

configureFsSafeNative({ mode: "require" });
const scope = await root(process.argv[2]);

const verbs = {
  read: async (path) => {
    const { length } = await scope.readBytes(path);
    if (length !== 4096) throw new Error(`read ${length} bytes`);
  },
  // Its writes are durable unless told otherwise: the file and its directory
  // are synced.
  replace: async (path, n) => {
    await scope.write(path, Buffer.from(`${String(n).padStart(4095, "0")}\n`));
  },
  list: async (path) => {
    const entries = await scope.list(path, { withFileTypes: true });
    if (entries.length !== 1000 || !(entries[0].size > 0)) throw new Error("not the list");
  },
  extract: async (path) => {
    const destDir = join(process.argv[2], "theirs");
    await mkdir(destDir);
    const archivePath = join(process.argv[2], path);
    await extractArchive({ archivePath, destDir, kind: "zip", timeoutMs: 120_000 });
  },
};

for await (const line of createInterface({ input: process.stdin })) {
  const [verb, times, path] = line.split(" ");
  const began = process.cpuUsage();
  const since = process.hrtime.bigint();
  for (let n = 0; n < Number(times); n += 1) await verbs[verb](path, n);
  const wall = Number(process.hrtime.bigint() - since) / 1000;
  const { user, system } = process.cpuUsage(began);
  console.log(`${(user + system) / Number(times)} ${wall / Number(times)}`);
}
