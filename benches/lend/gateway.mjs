// The smallest gateway that daemons of n8n's dialect can be lent to, the same for both:
// nothing of either side is in it, so that what is measured is the daemon.
import { createServer } from 'node:http'

const BASE = '/rest/instance-ai/gateway'
const KEY = `sess_${'k'.repeat(32)}`
/** What is waited for one call; a search of the peer's takes half a minute on a slow machine. */
const PATIENCE_MS = 180_000

export class Gateway {
  constructor() {
    this.waiting = new Map()
    this.number = 0
    this.http = createServer((request, response) => this.answer(request, response))
    this.http.keepAliveTimeout = 600_000
  }

  async listen() {
    await new Promise(done => this.http.listen(0, '127.0.0.1', done))
    this.url = `http://127.0.0.1:${this.http.address().port}`
  }

  /** The pairing token for the next daemon; resolves `init` and `linked` when it says and does so. */
  expect() {
    this.stream = undefined
    this.init = new Promise(done => { this.heardInit = done })
    this.linked = new Promise(done => { this.heardEvents = done })
    return `gw_${'t'.repeat(32)}`
  }

  answer(request, response) {
    const path = request.url.slice(BASE.length)
    if (path === '/events') {
      response.writeHead(200, { 'content-type': 'text/event-stream; charset=UTF-8', 'cache-control': 'no-cache, no-transform' })
      response.flushHeaders()
      this.stream = response
      this.heardEvents()
      return
    }
    const pieces = []
    request.on('data', piece => pieces.push(piece))
    request.on('end', () => {
      let data = { ok: true }
      if (path === '/init') {
        this.heardInit(performance.now())
        data = { ok: true, sessionKey: KEY }
      } else if (path.startsWith('/response/')) {
        const id = path.slice('/response/'.length)
        this.waiting.get(id)?.(Buffer.concat(pieces))
        this.waiting.delete(id)
      }
      response.setHeader('content-type', 'application/json')
      response.end(JSON.stringify({ data }))
    })
  }

  /** Calls a tool: its result, and how many milliseconds until the last byte of it was here. */
  async call(name, args) {
    const requestId = `gw_${this.number += 1}`
    const event = { type: 'filesystem-request', payload: { requestId, toolCall: { name, arguments: args } } }
    let timer
    const reply = new Promise((done, fail) => {
      this.waiting.set(requestId, body => done([body, performance.now()]))
      timer = setTimeout(() => fail(new Error(`${name}: no reply`)), PATIENCE_MS)
    })
    const began = performance.now()
    this.stream.write(`data: ${JSON.stringify(event)}\n\n`)
    const [body, ended] = await reply
    clearTimeout(timer)
    const { result, error } = JSON.parse(body)
    if (error || result.isError) throw new Error(`${name}: ${error ?? result.content[0].text}`)
    return { result, ms: ended - began }
  }

  close() {
    this.http.closeAllConnections()
    this.http.close()
  }
}
