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
import { measured } from './again.mjs'
import { carrier, CHANGES, CONNECTIONS, OneConnection, READS, requestsPerSecond } from './load.mjs'
import { cpuOfOne, processes, residentMib } from './process.mjs'
import { print, row, shaped } from './table.mjs'
import { make } from './world.mjs'

const { values } = parseArgs({
  options: {
    node: { type: 'string' }, qwen: { type: 'string' }, binary: { type: 'string' },
    smoke: { type: 'boolean' }, only: { type: 'string', multiple: true }, json: { type: 'string' },
  },
})

/** What issue 5 promises: times less CPU, times more requests, times faster, times smaller. */
const LIMIT = { read: 20, change: 5, rps: 10, start: 20, memory: 10 }
const PLAN = values.smoke
  ? { rounds: 1, warmMs: 200, wallMs: 300, wrkSeconds: 1, starts: 1, idleMs: 500 }
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
const wanted = name => !values.only || values.only.some(only => name.includes(only))

async function measure(name, limit, take) {
  if (wanted(name)) rows.push(...await measured(name, limit, async more => [await take(more)], values.smoke))
}

/** CPU of the server for one request, in µs, asked one after the other on one connection. */
async function cpuPerRequest(side, name) {
  const client = new OneConnection(side.daemon, side.root)
  try {
    const ask = client.asker(name)
    const ms = await cpuOfOne(side.daemon.pid, { ms: PLAN.wallMs }, () => ask(false))
    if (ms === 0) throw new Error(`${name}: too few requests to see what they cost`)
    return ms * 1_000
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

/** The best of interleaved rounds of each side. */
const best = async (sides, rounds, pick, take) => {
  const figures = sides.map(() => [])
  for (let round = 0; round < rounds; round += 1) {
    for (const [index, side] of sides.entries()) figures[index].push(await take(side))
  }
  return figures.map(list => pick(...list))
}

async function startSide(name) {
  return { name, root, daemon: await starters[name](values, { root, state: path.join(scratch, name) }) }
}

async function startAndEnd(name) {
  const { daemon } = await startSide(name)
  await daemon.end()
  console.log(`${name}: started in ${daemon.firstByteMs.toFixed(0)} ms`)
  return daemon.firstByteMs
}

/** Of daemons that were started and asked for nothing. */
async function idle(name) {
  const { daemon } = await startSide(name)
  try {
    await pause(PLAN.idleMs)
    return residentMib(daemon.pid)
  } finally {
    await daemon.end()
  }
}

async function main() {
  make(root)
  await measure('start to first byte', LIMIT.start, async more => row('start to first byte', 'ms', ...(await best(SIDES, PLAN.starts * more, Math.min, startAndEnd)), 'less', LIMIT.start))
  await measure('memory, idle', LIMIT.memory, async more => row('memory, idle', 'MiB', ...(await best(SIDES, more, Math.min, idle)), 'less', LIMIT.memory))
  const sides = []
  try {
    for (const name of SIDES) sides.push(await startSide(name))
    for (const side of sides) console.log(`${side.name}: ${processes(side.daemon.pid)} process(es)`)
    for (const [name, limit] of [...Object.keys(READS).map(one => [one, LIMIT.read]), ...Object.keys(CHANGES).map(one => [one, LIMIT.change])]) {
      await measure(`${name}, CPU`, limit, async more => {
        for (const side of sides) await warm(side, name)
        const figures = await best(sides, PLAN.rounds * more, Math.min, side => cpuPerRequest(side, name))
        return row(`${name}, CPU`, 'µs', ...figures, 'less', limit)
      })
    }
    for (const name of ['file-4k', 'file-200k', 'list-1000']) {
      const what = `${name}, ${CONNECTIONS} connections`
      await measure(what, LIMIT.rps, async more => row(what, '/s', ...(await best(sides, PLAN.rounds * more, Math.max, side => requestsPerSecond(side.daemon, name, PLAN.wrkSeconds))), 'more', LIMIT.rps))
    }
  } finally {
    for (const side of sides) await side.daemon.end()
  }
}

await main()
const missed = print(rows, `${values.smoke ? 'smoke run' : 'full run'}; CPU of the server per request; rates by ${carrier}; the best of interleaved rounds`, values.smoke)
if (values.json) fs.writeFileSync(values.json, JSON.stringify({ smoke: Boolean(values.smoke), rows: rows.map(shaped) }))
process.exit(missed === 0 ? 0 : 1)
