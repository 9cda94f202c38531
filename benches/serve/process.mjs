// CPU time and memory of a process and of every process below it, from /proc.
import { execFileSync } from 'node:child_process'
import * as fs from 'node:fs'

const TICK_MS = 1_000 / Number(execFileSync('getconf', ['CLK_TCK'], { encoding: 'utf8' }))

function tree(pid) {
  const below = fs.readdirSync(`/proc/${pid}/task`).flatMap(task => {
    try {
      return fs.readFileSync(`/proc/${pid}/task/${task}/children`, 'utf8').split(' ').filter(Boolean)
    } catch {
      return [] // A thread that has ended meanwhile has no children.
    }
  })
  return [pid, ...below.flatMap(child => tree(Number(child)))]
}

/** User and system time so far, in milliseconds; waited-for children count too. */
export function cpuMs(pid) {
  const ticks = tree(pid).map(one => {
    const stat = fs.readFileSync(`/proc/${one}/stat`, 'utf8')
    // The name may hold spaces, so count from behind it: utime is the 14th field.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    return fields.slice(11, 15).reduce((sum, field) => sum + Number(field), 0)
  })
  return ticks.reduce((sum, one) => sum + one, 0) * TICK_MS
}

/** Resident memory, in MiB. */
export function residentMib(pid) {
  const kib = tree(pid).map(one => Number(/^VmRSS:\s+(\d+)/m.exec(fs.readFileSync(`/proc/${one}/status`, 'utf8'))?.[1] ?? 0))
  return kib.reduce((sum, one) => sum + one, 0) / 1_024
}

export const processes = pid => tree(pid).length
