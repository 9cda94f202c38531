// The rows, as benches/run.sh prints its own: what, ours, theirs, ratio, limit, verdict.
const HEAD = ['what', 'ours', 'qwen serve', 'ratio', 'limit', 'verdict']
const DIGITS_UNDER = 100
/** Rows whose limit docs/SPEC.md says is missed or stood upon. May only shrink; a full run forgives none. */
const KNOWN_MISSED = ['file-4k, CPU', 'file-200k, CPU']

const figure = (value, unit) => `${value.toFixed(Math.abs(value) < DIGITS_UNDER ? 2 : 0)}${unit === '×' ? '' : ' '}${unit}`

/** `better`: 'less' where the peer is to have `limit` times as much, 'more' where ours is. */
export function row(what, unit, ours, theirs, better, limit) {
  const ratio = better === 'less' ? theirs / ours : ours / theirs
  return { what, unit, ours, theirs, ratio, limit, met: Number.isFinite(ratio) && ratio >= limit }
}
export const unmeasured = (what, limit, why) => ({ what, limit, met: false, why })

export function print(rows, mode, smoke) {
  const cells = rows.map(one => one.why !== undefined
    ? [one.what, '–', '–', '–', `≥ ${figure(one.limit, '×')}`, `MISSED (not measured: ${one.why.split('\n')[0]})`]
    : [one.what, figure(one.ours, one.unit), figure(one.theirs, one.unit), figure(one.ratio, '×'), `≥ ${figure(one.limit, '×')}`, one.met ? 'met' : 'MISSED'])
  const widths = HEAD.map((_, column) => Math.max(...[HEAD, ...cells].map(line => column === 5 ? 7 : [...line[column]].length)))
  const line = texts => texts.map((text, column) => {
    const gap = ' '.repeat(Math.max(0, widths[column] - [...text].length))
    return column === 0 ? text + gap : column === 5 ? text : gap + text
  }).join('  ')
  const rule = '─'.repeat(widths.reduce((sum, width) => sum + width, 10))
  console.log(`\n${line(HEAD)}\n${rule}\n${cells.map(line).join('\n')}\n${rule}`)
  const missed = rows.filter(one => !one.met)
  const forgiven = one => smoke && one.why === undefined && KNOWN_MISSED.includes(one.what)
  const known = missed.filter(forgiven).length
  console.log(`${rows.length} rows, ${missed.length} missed, ${known} of them known (${mode}; the best of interleaved rounds)`)
  return missed.length - known
}
