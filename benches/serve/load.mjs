// Requests: one after the other on one connection, or as many as sixteen connections carry.
import { execFileSync, spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import * as fs from 'node:fs'
import * as http from 'node:http'
import * as path from 'node:path'
import { LARGE, LISTED, LISTED_COUNT, SMALL, TREE, TREE_COUNT } from './world.mjs'

export const CONNECTIONS = 16
const sha256 = bytes => `sha256:${createHash('sha256').update(bytes).digest('hex')}`
/** The same text with another first letter, so that each change is one. */
const changed = text => (text[0] === 'a' ? 'b' : 'a') + text.slice(1)

/**
 * What is measured: how it is asked, and what shows that it was done. `changes` are asked
 * with the content and hash that the last answer left.
 */
export const READS = {
  'file-4k': { ask: `/file?path=${SMALL}`, done: answer => answer.sizeBytes === 4_096 && answer.content.length === 4_096 },
  'file-200k': { ask: `/file?path=${LARGE}`, done: answer => answer.content.length === 204_800 },
  'list-1000': { ask: `/list?path=${LISTED}`, done: answer => answer.entries.length === LISTED_COUNT },
  'glob-20000': { ask: `/glob?pattern=${encodeURIComponent(`${TREE}/**/*.ts`)}&maxResults=50000`, done: answer => answer.count === TREE_COUNT / 2 },
}
export const CHANGES = {
  'write-4k': {
    file: 'written.txt', route: '/file/write',
    body: (file, text, next, hash) => ({ path: file, mode: 'replace', content: next, expectedHash: hash }),
  },
  'edit-4k': {
    file: 'edited.txt', route: '/file/edit',
    body: (file, text, next, hash) => ({ path: file, oldText: text.slice(0, 20), newText: next.slice(0, 20), expectedHash: hash }),
  },
}

export class OneConnection {
  constructor({ base, token }, root) {
    this.url = new URL(base)
    this.token = token
    this.root = root
    this.agent = new http.Agent({ keepAlive: true, maxSockets: 1 })
  }

  close() {
    this.agent.destroy()
  }

  send(method, target, body) {
    const headers = { authorization: `Bearer ${this.token}`, ...(body ? { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) } : {}) }
    return new Promise((resolve, reject) => {
      const request = http.request({ agent: this.agent, host: this.url.hostname, port: this.url.port, method, path: target, headers }, response => {
        const parts = []
        response.on('data', part => parts.push(part))
        response.on('error', reject)
        response.on('end', () => resolve({ status: response.statusCode, bytes: Buffer.concat(parts) }))
      })
      request.on('error', reject)
      request.end(body)
    })
  }

  /** A function that asks once. The answer is looked at only where `check` says so: that costs the client, not the server. */
  asker(name) {
    const read = READS[name]
    if (read) {
      return async check => {
        const { status, bytes } = await this.send('GET', read.ask)
        if (status !== 200) throw new Error(`${name}: status ${status}: ${bytes.toString().slice(0, 200)}`)
        if (check && !read.done(JSON.parse(bytes))) throw new Error(`${name}: not what was asked for: ${bytes.toString().slice(0, 200)}`)
      }
    }
    const change = CHANGES[name]
    const at = path.join(this.root, change.file)
    let text = fs.readFileSync(at, 'utf8')
    return async check => {
      const next = changed(text)
      const body = JSON.stringify(change.body(change.file, text, next, sha256(text)))
      const { status, bytes } = await this.send('POST', change.route, body)
      if (status !== 200) throw new Error(`${name}: status ${status}: ${bytes.toString().slice(0, 200)}`)
      text = next
      if (check && fs.readFileSync(at, 'utf8') !== next) throw new Error(`${name}: the file does not hold what was written`)
    }
  }
}

const hasWrk = (() => {
  try {
    execFileSync('sh', ['-c', 'command -v wrk'], { stdio: 'ignore' })
    return true
  } catch {
    return false
  }
})()
export const carrier = hasWrk ? 'wrk' : 'a client in Node'

/** Requests a second over sixteen connections. */
export async function requestsPerSecond(daemon, name, seconds) {
  return hasWrk ? byWrk(daemon, name, seconds) : byNode(daemon, name, seconds)
}

function byWrk({ base, token }, name, seconds) {
  // Not blocking: whoever stops us has to reach the server as well.
  const wrk = spawn('wrk', ['-t1', `-c${CONNECTIONS}`, `-d${seconds}s`, '--timeout', '10s', '-H', `Authorization: Bearer ${token}`, base + READS[name].ask], { stdio: ['ignore', 'pipe', 'inherit'] })
  return new Promise((resolve, reject) => {
    let said = ''
    wrk.stdout.on('data', part => (said += part))
    wrk.once('error', reject)
    wrk.once('close', code => {
      const rate = Number(/Requests\/sec:\s+([\d.]+)/.exec(said)?.[1])
      if (code !== 0 || !rate || /Non-2xx|Socket errors/.test(said)) reject(new Error(`wrk on ${name}: ${said}`))
      else resolve(rate)
    })
  })
}

async function byNode(daemon, name, seconds) {
  const clients = Array.from({ length: CONNECTIONS }, () => new OneConnection(daemon))
  const began = performance.now()
  let count = 0
  await Promise.all(clients.map(async client => {
    const ask = client.asker(name)
    while (performance.now() - began < seconds * 1_000) {
      await ask(false)
      count += 1
    }
  }))
  for (const client of clients) client.close()
  return count / ((performance.now() - began) / 1_000)
}
