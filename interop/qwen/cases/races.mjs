// A directory on the way is swapped for a link that leads out while requests run.
import { fork } from 'node:child_process'
import * as fs from 'node:fs'
import { fileURLToPath } from 'node:url'
import { create, get } from '../words.mjs'

const scene = 'races'
const SWAPPER = fileURLToPath(new URL('../swapper.mjs', import.meta.url))
/** How long ours has to hold, and how long theirs is given to leak. */
const HOLD_MS = 2_000
const LEAK_MS = 15_000
const AT_ONCE = 6
const SECRET = 'canary of the outside\n'
/** In plain text, and in what /file/bytes makes of it. */
const TOLD = /canary|Y2FuYXJ5/
const INSIDE = 'inside\n'

/** Asks while `d` is swapped, until something of the outside is told or touched, or the time is up. */
const race = ask => async (place, _, side) => {
  // The same names on both sides, so that a request finds something whichever it meets.
  const sub = `${place.outside}/sub`
  fs.mkdirSync(sub, { recursive: true })
  fs.writeFileSync(`${sub}/secret.txt`, SECRET)
  const touched = () => [place.outside, sub].some(dir => fs.readdirSync(dir).some(name => name.includes('planted')) || fs.readFileSync(`${dir}/secret.txt`, 'utf8') !== SECRET)
  const swapper = fork(SWAPPER, [place.dir, 'd', place.outside], { execArgv: [] })
  const ended = new Promise(resolve => swapper.once('exit', resolve))
  const until = Date.now() + (side === 'ours' ? HOLD_MS : LEAK_MS)
  const counts = { asked: 0, inside: 0, outside: 0 }
  place.counts = counts
  try {
    await Promise.all(Array.from({ length: AT_ONCE }, async () => {
      while (Date.now() < until && counts.outside === 0) {
        const answer = await place.client.send(place.fill(ask(counts.asked)))
        counts.asked += 1
        if (TOLD.test(answer.text) || touched()) counts.outside += 1
        else if (answer.status < 300) counts.inside += 1
      }
    }))
  } finally {
    swapper.kill('SIGKILL')
    await ended
  }
}
const judged = {
  qwen: ({ counts }) => (counts.outside > 0 ? [] : [`nothing leaked: ${JSON.stringify(counts)}`]),
  // Something has to get through, or nothing was raced.
  ours: ({ counts }) => (counts.outside === 0 && counts.inside > 0 ? [] : [JSON.stringify(counts)]),
}
const swapped = (name, tree, ask) => ({ name, of: 'ours', scene, tree, differs: 'what is swapped on the way leads nowhere', steps: [{ act: race(ask), judged }] })
const parent = { 'd/secret.txt': INSIDE }
const grandparent = { 'd/sub/secret.txt': INSIDE }

export default [
  swapped('a parent swapped under reads', parent, () => get('/file', { path: '@/d/secret.txt' })),
  swapped('a grandparent swapped under reads', grandparent, () => get('/file', { path: '@/d/sub/secret.txt' })),
  swapped('a grandparent swapped under bytes', grandparent, () => get('/file/bytes', { path: '@/d/sub/secret.txt' })),
  swapped('a parent swapped under creates', parent, n => create(`@/d/planted-${n}.txt`, 'x')),
  swapped('a grandparent swapped under creates', grandparent, n => create(`@/d/sub/planted-${n}.txt`, 'x')),
]
