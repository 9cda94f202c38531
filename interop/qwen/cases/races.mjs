// A directory on the way is swapped for a link that leads out while requests run.
import { fork } from 'node:child_process'
import * as fs from 'node:fs'
import { fileURLToPath } from 'node:url'
import { create, get } from '../words.mjs'

const scene = 'races'
const SWAPPER = fileURLToPath(new URL('../swapper.mjs', import.meta.url))
/** How long ours has to hold, and how long it is given to let something through meanwhile. */
const HOLD_MS = 2_000
const THROUGH_MS = 30_000
/** How long theirs is given to leak, and how often: it takes a moment, but on a busy machine few requests meet a swap. */
const LEAK_MS = 60_000
const LEAK_TIMES = 2
const AT_ONCE = 6
const SECRET = 'canary of the outside\n'
/** In plain text, and in what /file/bytes makes of it. */
const TOLD = /canary|Y2FuYXJ5/
const INSIDE = 'inside\n'

/** Asks while `d` is swapped, until something of the outside is told or touched, or the time is up. */
async function once(ask, place, side, counts) {
  // The same names on both sides, so that a request finds something whichever it meets.
  const sub = `${place.outside}/sub`
  fs.mkdirSync(sub, { recursive: true })
  fs.writeFileSync(`${sub}/secret.txt`, SECRET)
  const touched = () => [place.outside, sub].some(dir => fs.readdirSync(dir).some(name => name.includes('planted')) || fs.readFileSync(`${dir}/secret.txt`, 'utf8') !== SECRET)
  const swapper = fork(SWAPPER, [place.dir, 'd', place.outside], { execArgv: [] })
  const ended = new Promise(resolve => swapper.once('exit', resolve))
  const began = Date.now()
  const goesOn = () => {
    const took = Date.now() - began
    return side === 'qwen' ? took < LEAK_MS : took < HOLD_MS || (counts.inside === 0 && took < THROUGH_MS)
  }
  try {
    await Promise.all(Array.from({ length: AT_ONCE }, async () => {
      while (goesOn() && counts.outside === 0) {
        const answer = await place.client.send(place.fill(ask(counts.asked)))
        counts.asked += 1
        if (TOLD.test(answer.text) || touched()) counts.outside += 1
        else if (answer.status < 300) counts.inside += 1
      }
    }))
  } finally {
    swapper.kill('SIGKILL')
    await ended
    // It was killed wherever it was: as it was before, for who races again.
    const [at, kept, link] = ['d', 'd.kept', 'd.link'].map(name => place.abs(name))
    for (const name of fs.existsSync(kept) ? [at, link] : [link]) {
      if (fs.lstatSync(name, { throwIfNoEntry: false })) fs.unlinkSync(name)
    }
    if (fs.existsSync(kept)) fs.renameSync(kept, at)
  }
}
const race = ask => async (place, _, side) => {
  const counts = { asked: 0, inside: 0, outside: 0 }
  place.counts = counts
  for (let time = 0; time < (side === 'qwen' ? LEAK_TIMES : 1) && counts.outside === 0; time += 1) await once(ask, place, side, counts)
  // That theirs leaks is what the race is known by to bite; where it was never met, that is not known, and nothing is wrong with ours.
  if (side === 'qwen' && counts.outside === 0) throw Object.assign(new Error(`nothing leaked: ${JSON.stringify(counts)}`), { isUntried: true })
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
