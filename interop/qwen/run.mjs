// Runs the case table against one server that is up.
//
//   run.mjs --differences      which differences are listed, and for how many cases
//   run.mjs --base URL --token T --root DIR --expect ours|qwen [--scene main] [--only TEXT] [--json FILE] [--verbose]
//
// DIR is the server's workspace, laid out by layOut() before the server started. A case
// with `differs` has two sides: the answer must be that of the side expected, and must not
// fit the other side as well. So a difference that has gone fails as much as a new one.
import * as fs from 'node:fs'
import * as path from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { Client } from './http.mjs'
import { always, compare } from './match.mjs'
import { outside, plant } from './tree.mjs'

const here = path.dirname(fileURLToPath(import.meta.url))

/** Everything in cases/, in order, checked for names that occur twice. */
export async function table() {
  const cases = []
  for (const file of fs.readdirSync(path.join(here, 'cases')).filter(name => name.endsWith('.mjs')).sort()) {
    const group = file.replace(/\.mjs$/, '')
    const { default: rows } = await import(path.join(here, 'cases', file))
    rows.forEach((row, index) => cases.push({ scene: 'main', ...row, group, slug: `${group}-${index}` }))
  }
  const seen = new Set()
  for (const one of cases) {
    const name = `${one.group}: ${one.name}`
    if (seen.has(name)) throw new Error(`two cases are called "${name}"`)
    seen.add(name)
    for (const step of stepsOf(one)) {
      const sided = step.qwen !== undefined || step.ours !== undefined
      if (sided && (!one.differs || step.qwen === undefined || step.ours === undefined)) {
        throw new Error(`"${name}" has sides, so it needs both of them and 'differs'`)
      }
    }
    if (one.differs && !stepsOf(one).some(step => step.qwen || step.judged)) throw new Error(`"${name}" differs without sides`)
  }
  return cases
}

const stepsOf = one => one.steps ?? [one]
const otherOf = side => (side === 'ours' ? 'qwen' : 'ours')

/** What has to stand in a workspace before a server starts: some read ignore files once. */
export function layOut(root) {
  plant(root, {
    '.gitignore': '*.log\ndist/\nbuild-out\n/top-only.txt\n!kept.log\n',
    '.qwenignore': '*.hidden\n',
  })
}

class Place {
  constructor(root, slug, client) {
    this.client = client
    this.root = root
    this.name = slug
    this.dir = path.join(root, slug)
  }
  get outside() {
    return outside(this.dir)
  }
  abs(name) {
    return path.join(this.dir, name)
  }
  /** `@/x` made a path, in every string of a value. */
  fill(value) {
    if (typeof value === 'string') return value === '@' ? this.name : value.startsWith('@/') ? `${this.name}/${value.slice(2)}` : value
    if (Array.isArray(value)) return value.map(one => this.fill(one))
    if (value !== null && typeof value === 'object' && !Buffer.isBuffer(value)) {
      return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, this.fill(one)]))
    }
    return value
  }
}

async function runCase(one, client, root, side) {
  const place = new Place(root, one.slug, client)
  const problems = []
  const problemsOfOther = []
  const answers = []
  plant(place.dir, typeof one.tree === 'function' ? one.tree(place) : (one.tree ?? {}))
  for (const step of stepsOf(one)) {
    if (step.act) {
      await step.act(place, answers, side)
      if (step.judged) {
        problems.push(...step.judged[side](place))
        problemsOfOther.push(...step.judged[otherOf(side)](place))
      }
      continue
    }
    const ask = typeof step.ask === 'function' ? step.ask(place, answers) : step.ask
    const together = Array.isArray(ask) ? ask : [ask]
    let got
    try {
      got = await Promise.all(together.map(request => client.send(place.fill(request))))
    } catch (error) {
      problems.push(`no answer: ${error.message}`)
      break
    }
    answers.push(Array.isArray(ask) ? got : got[0])
    for (const answer of got) problems.push(...always(answer, place, side, one.showsRoot))
    const wantOf = which => {
      const want = step.want ?? step[which]
      return typeof want === 'function' ? want(place, answers) : want
    }
    const judge = want => (Array.isArray(ask) ? want.all(got, place) : compare(got[0], want, place, side))
    problems.push(...judge(wantOf(side)))
    if (one.differs) problemsOfOther.push(...judge(wantOf(otherOf(side))))
  }
  if (one.differs && problems.length === 0 && problemsOfOther.length === 0) {
    problems.push(`the listed difference is none: ${one.differs}`)
  }
  return problems
}

/** Names of what drafts and temporary files are called, here and there. */
const STRAY = /^\.(portcullis|.*\.tmp$)/

function strays(dir) {
  return fs.readdirSync(dir, { recursive: true }).filter(name => STRAY.test(path.basename(name)))
}

export async function run({ base, token, root, expect: side, scene = 'main', only, verbose }) {
  const client = new Client(base, token)
  const results = []
  for (const one of await table()) {
    if (one.scene !== scene) continue
    const name = `${one.group}: ${one.name}`
    if (only && !name.includes(only)) continue
    const result = { name, of: one.of, differs: one.differs, scene }
    const began = Date.now()
    let problems
    try {
      problems = await runCase(one, client, root, side)
    } catch (error) {
      if (error.isUntried) {
        results.push({ ...result, outcome: 'untried', problems: [error.message], ms: Date.now() - began })
        console.log(`NOT TRIED: ${side} ${name}: ${error.message}`)
        continue
      }
      problems = [`the case itself failed: ${error.stack}`]
    }
    results.push({ ...result, outcome: problems.length ? 'failed' : 'passed', problems, ms: Date.now() - began })
    if (problems.length) console.log(`FAILED ${side} ${name}${one.differs ? ` [differs: ${one.differs}]` : ''}\n    ${problems.join('\n    ')}`)
    else if (verbose) console.log(`ok ${side} ${name}`)
  }
  client.close()
  const left = strays(root)
  // Qwen loses its own temporary files when it is raced; that is no case of ours.
  if (left.length && !(side === 'qwen' && scene === 'races')) {
    results.push({ name: 'nothing is left behind', scene, outcome: 'failed', problems: left })
    console.log(`FAILED ${side} nothing is left behind: ${left.slice(0, 5)}`)
  }
  return results
}

export function summary(side, results) {
  const count = outcome => results.filter(one => one.outcome === outcome).length
  const differing = results.filter(one => one.differs && one.outcome === 'passed').length
  return `${side}: ${count('passed')} passed (${differing} of them known differences), ${count('failed')} failed${count('untried') ? `, ${count('untried')} NOT TRIED` : ''}`
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { values } = parseArgs({
    options: {
      base: { type: 'string' }, token: { type: 'string' }, root: { type: 'string' }, expect: { type: 'string' },
      scene: { type: 'string', default: 'main' }, only: { type: 'string' }, json: { type: 'string' }, verbose: { type: 'boolean' }, differences: { type: 'boolean' },
    },
  })
  if (values.differences) {
    const counts = new Map()
    for (const { differs } of await table()) if (differs) counts.set(differs, (counts.get(differs) ?? 0) + 1)
    for (const [differs, count] of [...counts].sort()) console.log(`${String(count).padStart(4)}  ${differs}`)
    process.exit(0)
  }
  layOut(values.root)
  const results = await run(values)
  if (values.json) fs.writeFileSync(values.json, JSON.stringify(results, null, 1))
  console.log(summary(values.expect, results))
  process.exit(results.some(one => one.outcome === 'failed') ? 1 : 0)
}
