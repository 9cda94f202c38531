// Runs the whole table against the real `qwen serve` and against ours, scene by scene.
//
//   both.mjs --node FILE --qwen FILE [--binary FILE] [--side qwen|ours] [--only TEXT] [--json FILE] [--verbose]
import * as fs from 'node:fs'
import * as os from 'node:os'
import * as path from 'node:path'
import { parseArgs } from 'node:util'
import { SCENES, starters } from './daemon.mjs'
import { layOut, run, summary, table } from './run.mjs'

const { values } = parseArgs({
  options: {
    node: { type: 'string' }, qwen: { type: 'string' }, binary: { type: 'string' }, side: { type: 'string' },
    only: { type: 'string' }, json: { type: 'string' }, verbose: { type: 'boolean' },
  },
})
const sides = values.side ? [values.side] : ['qwen', 'ours']
// Its servers may run as somebody else, who has to get through to their own files.
process.umask(0o022)
const scratch = fs.realpathSync(fs.mkdtempSync(path.join(os.tmpdir(), 'qwen-cases-')))
fs.chmodSync(scratch, 0o711)
process.on('exit', () => fs.rmSync(scratch, { recursive: true, force: true }))

async function runScene(side, scene) {
  const state = path.join(scratch, `${side}-${scene}`)
  const root = path.join(state, 'workspace')
  fs.mkdirSync(root, { recursive: true })
  layOut(root)
  const daemon = await starters[side](values, { root, state, scene })
  try {
    return await run({ ...values, base: daemon.base, token: daemon.token, root, expect: side, scene })
  } finally {
    await daemon.end()
  }
}

async function runSide(side) {
  const results = []
  const { only } = values
  const cases = (await table()).filter(one => !only || `${one.group}: ${one.name}`.includes(only))
  for (const scene of SCENES.filter(scene => cases.some(one => one.scene === scene))) {
    try {
      results.push(...(await runScene(side, scene)))
    } catch (error) {
      console.log(`FAILED ${side} scene ${scene}: ${error.message}`)
      results.push({ name: `scene ${scene}`, scene, outcome: 'failed', problems: [error.message] })
    }
  }
  return results
}

// Side by side: most of the time one of them is starting.
const results = await Promise.all(sides.map(async side => ({ side, results: await runSide(side) })))
if (values.json) fs.writeFileSync(values.json, JSON.stringify(Object.fromEntries(results.map(one => [one.side, one.results])), null, 1))
for (const one of results) console.log(summary(one.side, one.results))
process.exit(results.some(one => one.results.some(result => result.outcome === 'failed')) ? 1 : 0)
