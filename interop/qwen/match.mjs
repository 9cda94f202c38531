// Holds an answer against what a case wants of it.
import { compareDisk } from './tree.mjs'
import { KEYS, OPTIONAL } from './words.mjs'

/** What is wrong with the answer, in sentences; none when it is as wanted. */
export function compare(answer, want, place, side) {
  const problems = []
  if (want.status !== undefined && answer.status !== want.status) {
    problems.push(`status ${answer.status}, not ${want.status}: ${answer.text.slice(0, 200)}`)
  }
  if (want.body !== undefined) {
    if (answer.json === undefined) problems.push(`the body is not JSON: ${answer.text.slice(0, 120)}`)
    else hold(answer.json, place.fill(want.body), '', problems)
  }
  if (want.text !== undefined) hold(answer.text, want.text, 'the text', problems)
  for (const [name, value] of Object.entries(want.headers ?? {})) {
    hold(answer.headers[name], value, `header ${name}`, problems)
  }
  if (want.disk) problems.push(...compareDisk(place.dir, want.disk))
  if (want.outside) problems.push(...compareDisk(place.outside, want.outside))
  const keys = KEYS[answer.json?.kind]
  if (keys && answer.status < 300 && want.body?.errorKind === undefined) {
    const got = Object.keys(answer.json)
    const missing = keys.filter(key => !got.includes(key) && !OPTIONAL.has(key))
    // Ours may say more than Qwen; Qwen itself shows what the table leaves out.
    const extra = side === 'qwen' ? got.filter(key => !keys.includes(key)) : []
    if (missing.length) problems.push(`missing keys: ${missing}`)
    if (extra.length) problems.push(`unknown keys: ${extra}`)
  }
  return problems
}

function hold(got, want, at, problems) {
  if (typeof want === 'function') {
    const verdict = want(got)
    if (verdict !== true) problems.push(`${at}: ${verdict}`)
  } else if (want !== null && typeof want === 'object' && !Array.isArray(want)) {
    if (got === null || typeof got !== 'object') problems.push(`${at}: ${JSON.stringify(got)} is not an object`)
    else for (const [key, value] of Object.entries(want)) hold(got[key], value, at ? `${at}.${key}` : key, problems)
  } else if (Array.isArray(want)) {
    if (!Array.isArray(got) || got.length !== want.length) problems.push(`${at}: ${JSON.stringify(got)?.slice(0, 300)} is not ${JSON.stringify(want).slice(0, 300)}`)
    else want.forEach((one, index) => hold(got[index], one, `${at}[${index}]`, problems))
  } else if (got !== want) {
    problems.push(`${at}: ${short(got)} is not ${short(want)}`)
  }
}

const short = value => {
  const text = JSON.stringify(value) ?? 'absent'
  return text.length > 160 ? `${text.slice(0, 160)}… (${text.length})` : text
}

/** What holds of every answer of a file route, whatever the case is about. */
export function always(answer, place, side, shownRoot) {
  const problems = []
  const { json } = answer
  if (json?.errorKind !== undefined || KEYS[json?.kind]) {
    const expected = {
      'cache-control': 'no-store',
      'x-content-type-options': 'nosniff',
      'content-type': 'application/json; charset=utf-8',
    }
    for (const [name, value] of Object.entries(expected)) hold(answer.headers[name], value, `header ${name}`, problems)
  }
  if (json?.errorKind !== undefined) {
    if (json.status !== answer.status) problems.push(`the body says status ${json.status}, the answer is ${answer.status}`)
    if (typeof json.error !== 'string' || json.error === '') problems.push('an error without words')
  }
  if (side === 'ours' && !shownRoot && answer.text.includes(place.root)) {
    problems.push(`the answer names a host path: ${answer.text.slice(0, 200)}`)
  }
  return problems
}
