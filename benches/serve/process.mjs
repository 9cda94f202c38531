// CPU time and memory of a process and of every process below it, from /proc.
import { execFileSync } from 'node:child_process'
import * as fs from 'node:fs'

const TICK_MS = 1_000 / Number(execFileSync('getconf', ['CLK_TCK'], { encoding: 'utf8' }))
/** Ticks tell little of less. */
const ENOUGH_CPU_MS = 200
/** What costs next to nothing does not come to that in any time. */
const LONGEST_MS = 15_000
const LOOKS = 10

/** What /proc says of a thread or a process that ended between being listed and being looked at. */
const hasEnded = error => error.code === 'ENOENT' || error.code === 'ESRCH'

function unlessEnded(read, otherwise) {
  try {
    return read()
  } catch (error) {
    if (hasEnded(error)) return otherwise
    throw error
  }
}

function tree(pid) {
  const below = fs.readdirSync(`/proc/${pid}/task`).flatMap(task => unlessEnded(() => fs.readFileSync(`/proc/${pid}/task/${task}/children`, 'utf8').split(' ').filter(Boolean), []))
  return [pid, ...below.flatMap(child => unlessEnded(() => tree(Number(child)), []))]
}

/**
 * User and system time so far, in milliseconds; waited-for children count too. Where one ends
 * while they are looked at, its time goes to its parent, which was looked at before: all again.
 */
export function cpuMs(pid) {
  for (let looks = 1; ; looks += 1) {
    try {
      return tree(pid).map(ticks).reduce((sum, one) => sum + one, 0) * TICK_MS
    } catch (error) {
      if (looks === LOOKS || !hasEnded(error)) throw error
    }
  }
}

function ticks(pid) {
  const stat = fs.readFileSync(`/proc/${pid}/stat`, 'utf8')
  // The name may hold spaces, so count from behind it: utime is the 14th field.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  return fields.slice(11, 15).reduce((sum, field) => sum + Number(field), 0)
}

/** CPU of a process for what `once` makes it do, in ms: so often and so long as is asked for, and until ticks tell it. */
export async function cpuOfOne(pid, least, once) {
  const [before, began] = [cpuMs(pid), performance.now()]
  let [times, spent] = [0, 0]
  do {
    // Looked at between such pieces alone, since that costs the one who asks.
    const until = performance.now() + least.ms
    do {
      await once()
      times += 1
    } while (times < (least.times ?? 1) || performance.now() < until)
    spent = cpuMs(pid) - before
  } while (spent < ENOUGH_CPU_MS && performance.now() - began < LONGEST_MS)
  return spent / times
}

/** The sum of a line such as `VmRSS` in a file of each, in MiB; one that has ended holds nothing. */
function memoryMib(pid, file, line) {
  const kib = tree(pid).map(one => unlessEnded(() => Number(line.exec(fs.readFileSync(`/proc/${one}/${file}`, 'utf8'))?.[1] ?? 0), 0))
  return kib.reduce((sum, one) => sum + one, 0) / 1_024
}

/** Resident memory, in MiB. */
export const residentMib = pid => memoryMib(pid, 'status', /^VmRSS:\s+(\d+)/m)

/** Its share of memory, in MiB: what several map counts once between them. */
export const shareMib = pid => memoryMib(pid, 'smaps_rollup', /^Pss:\s+(\d+)/m)

export const processes = pid => tree(pid).length
