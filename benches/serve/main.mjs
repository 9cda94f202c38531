// Measures `portcullis serve` and `qwen serve` in one run, and holds the ratios to their limits.
//
//   main.mjs --node FILE --qwen FILE --binary FILE [--smoke] [--only NAME] [--json FILE]
import { spawnSync } from 'node:child_process'
import * as fs from 'node:fs'
import * as os from 'node:os'
import * as path from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { starters } from '../../interop/qwen/daemon.mjs'
import { carrier, CHANGES, CONNECTIONS, OneConnection, READS, requestsPerSecond } from './load.mjs'
import { cpuMs, processes, residentMib } from './process.mjs'
import { print, row, unmeasured } from './table.mjs'
import { make } from './world.mjs'

const { values } = parseArgs({
  options: {
    node: { type: 'string' }, qwen: { type: 'string' }, binary: { type: 'string' },
    smoke: { type: 'boolean' }, only: { type: 'string' }, json: { type: 'string' },
  },
})

/** What issue 5 promises: times less CPU, times more requests, times faster, times smaller. */
const LIMIT = { read: 20, change: 5, rps: 10, start: 20, memory: 10 }
const PLAN = values.smoke
  ? { rounds: 2, warmMs: 1_000, wallMs: 1_000, wrkSeconds: 1, starts: 2, idleMs: 4_000 }
  : { rounds: 5, warmMs: 4_000, wallMs: 5_000, wrkSeconds: 5, starts: 5, idleMs: 10_000 }
const SIDES = ['ours', 'qwen']

const scratch = fs.realpathSync(fs.mkdtempSync(path.join(os.tmpdir(), 'portcullis-serve-')))
// Far from what others deleted, which ext4 looks through before it gives an inode
// out; where it cannot be said, it is as it was.
spawnSync('chattr', ['+T', scratch])
process.on('exit', () => fs.rmSync(scratch, { recursive: true, force: true }))
/** One for both, who are never asked at the same time. */
const root = path.join(scratch, 'workspace')
const rows = []
const wanted = name => !values.only || name.includes(values.only)

async function measure(name, limit, take) {
  if (!wanted(name)) return
  try {
    rows.push(await take())
  } catch (error) {
    rows.push(unmeasured(name, limit, error.message))
  }
}

/**
 * CPU of the server for one request, in µs, asked one after the other on one connection.
 * /proc counts in ticks of 10 ms, so a round takes a second and not a number of requests.
 */
async function cpuPerRequest(side, name) {
  const client = new OneConnection(side.daemon, side.root)
  try {
    const ask = client.asker(name)
    const before = cpuMs(side.daemon.pid)
    const count = await askFor(ask, PLAN.wallMs)
    const spent = cpuMs(side.daemon.pid) - before
    if (spent === 0) throw new Error(`${name}: too few requests to see what they cost`)
    return (spent * 1_000) / count
  } finally {
    client.close()
  }
}

/** Not counted: caches fill, code that runs often is compiled, and the answer is looked at. */
async function warm(side, name) {
  const client = new OneConnection(side.daemon, side.root)
  try {
    const ask = client.asker(name)
    await ask(true)
    await askFor(ask, PLAN.warmMs)
  } finally {
    client.close()
  }
}

async function askFor(ask, ms) {
  const began = performance.now()
  let count = 0
  do {
    await ask(false)
    count += 1
  } while (performance.now() - began < ms)
  return count
}

const best = async (sides, pick, take) => {
  const figures = sides.map(() => [])
  for (let round = 0; round < PLAN.rounds; round += 1) {
    for (const [index, side] of sides.entries()) figures[index].push(await take(side))
  }
  return figures.map(list => pick(...list))
}

async function startSide(name) {
  return { name, root, daemon: await starters[name](values, { root, state: path.join(scratch, name) }) }
}

async function main() {
  const starts = { ours: [], qwen: [] }
  const sides = []
  try {
    make(root)
    for (let n = 0; n < PLAN.starts; n += 1) {
      for (const name of SIDES) {
        const side = await startSide(name)
        starts[name].push(side.daemon.firstByteMs)
        if (n + 1 < PLAN.starts) await side.daemon.end()
        else sides.push(side)
      }
    }
    await measure('start to first byte', LIMIT.start, () => row('start to first byte', 'ms', Math.min(...starts.ours), Math.min(...starts.qwen), 'less', LIMIT.start))
    await pause(PLAN.idleMs)
    await measure('memory, idle', LIMIT.memory, () => row('memory, idle', 'MiB', ...sides.map(side => residentMib(side.daemon.pid)), 'less', LIMIT.memory))
    for (const side of sides) console.log(`${side.name}: ${processes(side.daemon.pid)} process(es), starts ${starts[side.name].map(one => one.toFixed(0)).join(', ')} ms`)

    for (const [name, limit] of [...Object.keys(READS).map(one => [one, LIMIT.read]), ...Object.keys(CHANGES).map(one => [one, LIMIT.change])]) {
      await measure(`${name}, CPU`, limit, async () => {
        for (const side of sides) await warm(side, name)
        const figures = await best(sides, Math.min, side => cpuPerRequest(side, name))
        return row(`${name}, CPU`, 'µs', ...figures, 'less', limit)
      })
    }
    for (const name of ['file-4k', 'file-200k', 'list-1000']) {
      const what = `${name}, ${CONNECTIONS} connections`
      await measure(what, LIMIT.rps, async () => row(what, '/s', ...(await best(sides, Math.max, side => requestsPerSecond(side.daemon, name, PLAN.wrkSeconds))), 'more', LIMIT.rps))
    }
  } finally {
    for (const side of sides) await side.daemon.end()
  }
}

await main()
const missed = print(rows, `${values.smoke ? 'smoke run' : 'full run'}; CPU of the server per request; rates by ${carrier}`, values.smoke)
if (values.json) fs.writeFileSync(values.json, JSON.stringify({ smoke: Boolean(values.smoke), rows }, null, 1))
process.exit(missed === 0 && rows.length > 0 ? 0 : 1)
