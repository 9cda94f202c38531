// Does what it is told with the search tool of @n8n/computer-use, as its daemon
// calls it: a line `search 3 text` on standard input is answered with
// microseconds per search of every file below the directory it was started with,
// of CPU and on the wall.
import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

const require = createRequire(import.meta.url);
// By its path: the package exports its daemon alone.
const tool = fileURLToPath(
  new URL("./node_modules/@n8n/computer-use/dist/tools/filesystem/search-files.js", import.meta.url),
);
const { searchFilesTool } = require(tool);
const dir = process.argv[2];

for await (const line of createInterface({ input: process.stdin })) {
  const [, times, query] = line.split(" ");
  const began = process.cpuUsage();
  const since = performance.now();
  for (let n = 0; n < Number(times); n += 1) {
    const reply = await searchFilesTool.execute({ name: "**/*", query, maxResults: 100 }, { dir });
    const { totalMatches } = reply.structuredContent ?? JSON.parse(reply.content[0].text);
    if (!(totalMatches > 0)) throw new Error("nothing found");
  }
  const wall = (performance.now() - since) * 1000;
  const { user, system } = process.cpuUsage(began);
  console.log(`${(user + system) / Number(times)} ${wall / Number(times)}`);
}
