// n8n's gateway over HTTP: its own controller behind the routes its own decorators
// declare, with what stands around it in n8n (parsing, wrapping, errors, the limit to
// bodies) done the same way here. Every exchange with a daemon is kept.
import { createServer } from 'node:http';

/** `N8N_PAYLOAD_SIZE_MAX`, as it is unless somebody says otherwise. */
export const MAX_BODY = 16 * 1024 * 1024;
const REST = '/rest';

/** Its controller, with the gateway's own services and nothing behind the others. */
function controllerOf(n8n) {
  const settings = {
    isLocalGatewayDisabledForUser: async () => false,
    isBrowserUseEnabled: () => true,
    isInstanceAiEnabled: () => true,
  };
  const service = new n8n.InstanceAiGatewayService({ track() {} }, settings);
  const controller = Object.create(n8n.InstanceAiController.prototype);
  return Object.assign(controller, {
    gatewayService: service,
    settingsService: settings,
    push: { sendToUsers() {} },
    urlService: { getInstanceBaseUrl: () => 'http://n8n.invalid' },
    userRepository: { findOne: async () => null },
    gatewayApiKey: '',
  });
}

function routesOf(n8n) {
  return [...n8n.metadata.routes].map(([handler, route]) => ({
    handler,
    ...route,
    pattern: new RegExp(`^${REST}${n8n.metadata.basePath}${route.path.replace(/:([A-Za-z]+)/g, '(?<$1>[^/]+)')}$`),
  }));
}

async function bodyOf(request) {
  const pieces = [];
  let size = 0;
  for await (const piece of request) {
    size += piece.length;
    if (size <= MAX_BODY) pieces.push(piece);
  }
  return { size, text: size <= MAX_BODY ? Buffer.concat(pieces).toString('utf8') : undefined };
}

export class Server {
  constructor(n8n) {
    this.n8n = n8n;
    this.controller = controllerOf(n8n);
    this.routes = routesOf(n8n);
    /** What daemons said: user, method, path, headers, size, body, status, reply. */
    this.exchanges = [];
    /** Per user, what says otherwise to a request where a scenario wants that: returns a status. */
    this.interfering = new Map();
    this.http = createServer((request, response) => void this.answer(request, response));
    // A daemon that holds a connection open does not hold this up.
    this.http.keepAliveTimeout = 60_000;
  }

  async listen() {
    await new Promise((done) => this.http.listen(0, '127.0.0.1', done));
    return this.http.address().port;
  }

  /** As the page of a signed-in person asks; the cookie is not what is tried here. */
  async page(user, method, path, body) {
    const { port } = this.http.address();
    const reply = await fetch(`http://127.0.0.1:${port}${REST}/instance-ai${path}`, {
      method, headers: { 'x-user': user, 'content-type': 'application/json' }, body: body && JSON.stringify(body),
    });
    return { status: reply.status, body: await reply.json() };
  }

  gateway(user) {
    return this.controller.gatewayService.getLocalGateway(user);
  }

  /** What was said to a route by the daemon of a user. */
  said(user, handler) {
    return this.exchanges.filter((one) => one.user === user && (!handler || one.handler === handler));
  }

  async answer(request, response) {
    const path = request.url;
    const route = this.routes.find((one) => one.method === request.method.toLowerCase() && one.pattern.test(path));
    const exchange = { method: request.method, path, headers: request.headers, handler: route?.handler, at: Date.now() };
    const key = request.headers['x-gateway-key'];
    // Before it is answered: a pairing token is nobody's after it was used.
    exchange.user = key && this.controller.gatewayService.getUserIdForApiKey(key);
    exchange.key = key;
    if (!request.headers['x-user']) this.exchanges.push(exchange);
    const reply = (status, body, type = 'application/json') => {
      exchange.status = status;
      exchange.reply = body;
      if (response.headersSent || response.destroyed) return;
      response.writeHead(status, { 'content-type': type });
      response.end(type === 'application/json' ? JSON.stringify(body) : body);
    };
    try {
      const { size, text } = await bodyOf(request);
      Object.assign(exchange, { size, text });
      const otherwise = this.interfering.get(exchange.user)?.(exchange);
      if (otherwise) return reply(otherwise, { code: otherwise, message: 'for the sake of the scenario' });
      if (text === undefined) return reply(413, '<html>request entity too large</html>', 'text/html');
      if (!route) return reply(404, { code: 404, message: `The resource ${path} was not found` });
      request.body = text ? JSON.parse(text) : {};
      exchange.body = request.body;
      request.params = route.pattern.exec(path).groups ?? {};
      if (!route.skipAuth) {
        if (!request.headers['x-user']) return reply(401, { status: 'error', message: 'Unauthorized' });
        request.user = { id: request.headers['x-user'] };
      }
      await this.call(route, request, response, reply, exchange);
    } catch (error) {
      // As its ResponseError says.
      reply(error.httpStatusCode ?? 500, { code: error.errorCode ?? 0, message: error.message });
    }
  }

  async call(route, request, response, reply, exchange) {
    const types = this.n8n.paramTypes(route.handler);
    const args = [request, response];
    for (const [index, arg] of route.args.entries()) {
      if (arg?.type === 'param') args.push(request.params[arg.key]);
      if (arg?.type !== 'body') continue;
      const output = types[index].safeParse(request.body);
      if (!output.success) return reply(400, output.error.errors[0]);
      exchange.parsed = output.data;
      args.push(output.data);
    }
    const data = await this.controller[route.handler](...args);
    // The stream: it answers by itself.
    if (route.usesTemplates) {
      exchange.status = response.statusCode;
      exchange.response = response;
      return;
    }
    reply(200, { data });
  }

  close() {
    this.controller.gatewayService.disconnectAll();
    this.http.closeAllConnections();
    this.http.close();
  }
}
