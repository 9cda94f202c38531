// The rows, as benches/run.sh prints its own: what, ours, theirs, ratio, limit, verdict.
const DIGITS_UNDER = 100
/** Rows that docs/SPEC.md says miss their limit: not measured again. May only shrink. */
const KNOWN_MISSED = ['file-4k, CPU', 'file-200k, CPU']

const figure = (value, unit) => `${value.toFixed(Math.abs(value) < DIGITS_UNDER ? 2 : 0)}${unit === '×' ? '' : ' '}${unit}`

/** `better`: 'less' where the peer is to have `limit` times as much, 'more' where ours is. */
export function row(what, unit, ours, theirs, better, limit) {
  const ratio = better === 'less' ? theirs / ours : ours / theirs
  return { what, unit, ours, theirs, ratio, limit, met: Number.isFinite(ratio) && ratio >= limit }
}
/** A row whose limit is what ours may take at most, whatever the peer takes. */
export function ceiling(what, unit, ours, theirs, most) {
  return { what, unit, ours, theirs, ratio: theirs / ours, most, met: Number.isFinite(ours) && ours <= most }
}
/** A row that is told and held to nothing. */
export const told = one => ({ ...one, isTold: true, met: true })
export const unmeasured = (what, limit, why) => ({ what, limit, met: false, why })

/** A row as `./bench` gathers it, alike from every suite. */
export function shaped(one) {
  const part = (value, unit) => value === undefined ? null : { value, unit }
  const held = one.isTold || one.why !== undefined ? null : one.most === undefined ? { atLeast: one.limit, unit: '×' } : { atMost: one.most, unit: one.unit }
  return {
    what: one.what, ours: part(one.ours, one.unit), peer: part(one.theirs, one.unit),
    figure: one.why !== undefined ? null : one.most === undefined ? part(one.ratio, '×') : part(one.ours, one.unit),
    limit: held, verdict: one.isTold ? 'told' : one.met ? 'met' : 'missed', note: one.why ?? '',
  }
}

export const isKnownMissed = one => KNOWN_MISSED.includes(one.what)

const limit = one => one.isTold ? '–' : one.most === undefined ? `≥ ${figure(one.limit, '×')}` : `≤ ${figure(one.most, one.unit)}`

/** One row in a few words, for who waits for the table. */
export const tell = one => one.why !== undefined
  ? `${one.what} (${one.why.split('\n')[0]})`
  : `${one.what} (${one.most === undefined ? figure(one.ratio, '×') : figure(one.ours, one.unit)}, ${limit(one)})`

const verdict = one => `${one.isTold ? 'told' : one.met ? 'met' : 'MISSED'}${one.measured > 1 ? ` (measured ${one.measured} times)` : ''}`

export function print(rows, mode, smoke, peer = 'qwen serve') {
  const head = ['what', 'ours', peer, 'ratio', 'limit', 'verdict']
  const cells = rows.map(one => one.why !== undefined
    ? [one.what, '–', '–', '–', limit(one), `MISSED (not measured: ${one.why.split('\n')[0]})`]
    : [one.what, figure(one.ours, one.unit), figure(one.theirs, one.unit), figure(one.ratio, '×'), limit(one), verdict(one)])
  const widths = head.map((_, column) => Math.max(...[head, ...cells].map(line => column === 5 ? 7 : [...line[column]].length)))
  const line = texts => texts.map((text, column) => {
    const gap = ' '.repeat(Math.max(0, widths[column] - [...text].length))
    return column === 0 ? text + gap : column === 5 ? text : gap + text
  }).join('  ')
  const rule = '─'.repeat(widths.reduce((sum, width) => sum + width, 10))
  console.log(`\n${line(head)}\n${rule}\n${cells.map(line).join('\n')}\n${rule}`)
  const missed = rows.filter(one => !one.met)
  console.log(`${rows.length} rows, ${missed.length} missed (${mode})`)
  // How fast a machine is decides nothing in a smoke run; what could not be measured does.
  return missed.filter(one => !smoke || one.why !== undefined).length
}
