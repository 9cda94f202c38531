// One request as the case says it, header by header; nothing is added that it does not ask for.
import * as http from 'node:http'

/** How long a server may take for one answer. */
const PATIENCE_MS = 180_000

export class Client {
  constructor(base, token) {
    this.url = new URL(base)
    this.token = token
    this.agent = new http.Agent({ keepAlive: true, maxSockets: 8 })
  }

  close() {
    this.agent.destroy()
  }

  /** `headers: {name: undefined}` leaves a default out. */
  send(request) {
    const query = new URLSearchParams()
    for (const [name, value] of Object.entries(request.query ?? {})) {
      for (const one of Array.isArray(value) ? value : [value]) query.append(name, one)
    }
    const search = query.toString().replaceAll('+', '%20')
    const body = request.raw ?? (request.json === undefined ? undefined : Buffer.from(JSON.stringify(request.json)))
    const headers = { host: this.url.host }
    if (this.token) headers.authorization = `Bearer ${this.token}`
    if (request.json !== undefined) headers['content-type'] = 'application/json'
    if (body !== undefined && !request.chunked) headers['content-length'] = body.length
    for (const [name, value] of Object.entries(request.headers ?? {})) {
      if (value === undefined) delete headers[name]
      else headers[name] = typeof value === 'function' ? value(this.url) : value
    }
    return new Promise((resolve, reject) => {
      const sent = http.request({
        agent: request.alone ? false : this.agent,
        host: this.url.hostname,
        port: this.url.port,
        method: request.method,
        path: request.route + (search ? `?${search}` : '') + (request.search ?? ''),
        headers,
        setHost: false,
        timeout: PATIENCE_MS,
      })
      sent.on('timeout', () => sent.destroy(new Error(`no answer in ${PATIENCE_MS} ms`)))
      sent.on('error', reject)
      sent.on('response', response => {
        const parts = []
        response.on('data', part => parts.push(part))
        response.on('error', reject)
        response.on('end', () => {
          const text = Buffer.concat(parts).toString()
          let json
          try {
            json = JSON.parse(text)
          } catch {
            json = undefined
          }
          resolve({ status: response.statusCode, headers: response.headers, text, json })
        })
      })
      if (request.unfinished) {
        // The head and a first part only: the server must answer without the rest.
        sent.flushHeaders()
        sent.on('response', () => setTimeout(() => sent.destroy(), 50).unref())
        sent.on('error', () => {})
      } else sent.end(body)
    })
  }
}
