// Measures again what missed its limit: something beside it on the machine may have spoilt it.
import { isKnownMissed, tell, unmeasured } from './table.mjs'

const TIMES = 3

/** A known miss is not the machine's fault, and a smoke run decides on no limit; what could not be measured may be. */
const isWorthAnotherTry = (one, smoke) => one.why !== undefined || (!one.met && !smoke && !isKnownMissed(one))

/**
 * The rows that `take` gives. Those that miss are measured again, twice at most and each time
 * with twice the rounds, and the last time decides; those that were met are kept. `take` is
 * told how many times as many rounds it has to make.
 */
export async function measured(name, limit, take, smoke) {
  let rows = [unmeasured(name, limit, 'nothing was')]
  for (let time = 0; time < TIMES; time += 1) {
    const missed = rows.filter(one => isWorthAnotherTry(one, smoke))
    if (missed.length === 0) break
    const more = 2 ** time
    if (time > 0) console.log(`missed: ${missed.map(tell).join('; ')}; measuring again, with ${more} times the rounds`)
    try {
      const taken = await take(more)
      rows = taken.map(one => rows.find(old => old.what === one.what && !isWorthAnotherTry(old, smoke)) ?? { ...one, measured: time + 1 })
    } catch (error) {
      // What it came to before says more than that it could not be measured again.
      if (rows.every(one => one.why !== undefined)) rows = [unmeasured(name, limit, error.message)]
    }
  }
  return rows
}
