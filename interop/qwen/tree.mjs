// Makes the files a case starts from, and looks at what it left.
import { execFileSync } from 'node:child_process'
import * as fs from 'node:fs'
import * as path from 'node:path'

export const dir = { kind: 'dir' }
export const link = target => ({ kind: 'link', target })
export const hardLink = target => ({ kind: 'hard', target })
export const fifo = { kind: 'fifo' }
export const mode = (bits, content) => ({ kind: 'file', content, bits })

/** A tree is a map from path to content, or to one of the above; links are made last. */
export function plant(base, tree) {
  fs.mkdirSync(base, { recursive: true })
  const late = []
  for (const [name, what] of Object.entries(tree)) {
    const at = path.join(base, name)
    fs.mkdirSync(path.dirname(at), { recursive: true })
    if (typeof what === 'string' || Buffer.isBuffer(what)) fs.writeFileSync(at, what)
    else if (what.kind === 'dir') fs.mkdirSync(at, { recursive: true })
    else if (what.kind === 'fifo') execFileSync('mkfifo', [at])
    else if (what.kind === 'file') {
      fs.writeFileSync(at, what.content)
      fs.chmodSync(at, what.bits)
    } else late.push([at, what])
  }
  for (const [at, what] of late) {
    const target = what.target.replace('OUTSIDE', outside(base)).replace('HERE', base)
    if (what.kind === 'link') fs.symlinkSync(target, at)
    else fs.linkSync(path.resolve(path.dirname(at), target), at)
  }
}

/** A directory of the case's own that no workspace reaches. */
export function outside(base) {
  const place = path.join(path.dirname(path.dirname(base)), 'outside', path.basename(base))
  fs.mkdirSync(place, { recursive: true })
  const secret = path.join(place, 'secret.txt')
  if (!fs.existsSync(secret)) fs.writeFileSync(secret, 'canary of the outside\n')
  return place
}

/**
 * Holds the disk against what a want says of it: a text or bytes, `null` for nothing
 * there, or `{mode, link, dir, entries, links}`.
 */
export function compareDisk(base, want) {
  const problems = []
  for (const [name, what] of Object.entries(want)) {
    const at = path.join(base, name)
    const stat = fs.lstatSync(at, { throwIfNoEntry: false })
    const say = problem => problems.push(`on disk, ${name}: ${problem}`)
    if (what === null) {
      if (stat) say('is there, and should not be')
    } else if (!stat) say('is not there')
    else if (typeof what === 'string' || Buffer.isBuffer(what)) {
      const got = fs.readFileSync(at)
      if (!got.equals(Buffer.from(what))) say(`holds ${show(got)}, not ${show(Buffer.from(what))}`)
    } else if (typeof what === 'function') {
      const verdict = what(fs.readFileSync(at))
      if (verdict !== true) say(verdict)
    } else {
      if (what.mode !== undefined && (stat.mode & 0o7777) !== what.mode) say(`has mode ${(stat.mode & 0o7777).toString(8)}, not ${what.mode.toString(8)}`)
      if (what.link !== undefined && stat.isSymbolicLink() !== what.link) say(what.link ? 'is no link' : 'is a link')
      if (what.dir !== undefined && stat.isDirectory() !== what.dir) say(what.dir ? 'is no directory' : 'is a directory')
      if (what.entries !== undefined) {
        const got = fs.readdirSync(at).sort()
        if (JSON.stringify(got) !== JSON.stringify([...what.entries].sort())) say(`holds ${JSON.stringify(got)}, not ${JSON.stringify(what.entries)}`)
      }
    }
  }
  return problems
}

const show = bytes => (bytes.length > 80 ? `${bytes.length} bytes` : JSON.stringify(bytes.toString('latin1')))
