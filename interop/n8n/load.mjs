// Loads n8n's own gateway out of its packages. What has nothing to do with it (the
// database, workflows, the language model) is not installed, and an empty class stands
// in its place; `used` and `stood` say which is which.
import Module, { createRequire } from 'node:module';
import { join, sep } from 'node:path';

/** What of n8n's packages is theirs, by where it lies; the rest of their files is stood in for. */
const THEIRS = [
  'n8n/dist/modules/instance-ai/instance-ai.controller.js',
  'n8n/dist/modules/instance-ai/instance-ai-gateway.service.js',
  'n8n/dist/modules/instance-ai/filesystem/',
  'n8n/dist/errors/response-errors/',
  'instance-ai/dist/tools/filesystem/create-tools-from-mcp-server.js',
  'instance-ai/dist/agent/mcp-tool-name-validation.js',
  'instance-ai/dist/agent/sanitize-mcp-schemas.js',
  'instance-ai/dist/agent/sanitize-mcp-descriptions.js',
  'instance-ai/dist/tools/web-research/sanitize-web-content.js',
  'instance-ai/dist/tool-registry.js',
  'agents/dist/sdk/tool.js',
  'agents/dist/sdk/untrusted-content.js',
  'agents/dist/runtime/mcp/mcp-content.js',
];
const PACKAGES = [
  '@n8n/api-types', '@n8n/decorators', '@n8n/di', '@n8n/utils', 'n8n-workflow', 'nanoid',
  'reflect-metadata', 'zod', 'zod-from-json-schema-v3',
];

/** A module none of whose names does anything, but each of which can be a base or a type. */
function emptyModule(name) {
  const made = new Map();
  return new Proxy({}, {
    get(_, key) {
      if (typeof key !== 'string' || key === 'then') return undefined;
      if (key === '__esModule') return true;
      if (!made.has(key)) made.set(key, { [key]: class { static standsIn = `${name}#${key}`; } }[key]);
      return made.get(key);
    },
  });
}

export function load(home) {
  const unpacked = join(home, 'unpacked') + sep;
  const require = createRequire(join(home, 'index.js'));
  const used = new Set();
  const stood = new Set();
  const own = (path) => {
    used.add(path);
    return require(join(unpacked, path));
  };
  const ordinary = Module._load;
  const agents = () => Object.assign({}, ...THEIRS.filter((one) => one.startsWith('agents/')).map(own));
  Module._load = function pick(request, parent, isMain) {
    if (!parent?.filename?.startsWith(unpacked) || request.startsWith('node:')) return ordinary(request, parent, isMain);
    // The package's front loads a dozen makers of models; the files meant are behind it.
    if (request === '@n8n/agents') return agents();
    if (request.startsWith('.')) {
      const at = Module._resolveFilename(request, parent);
      const name = at.slice(unpacked.length).split(sep).join('/');
      if (THEIRS.some((one) => name.startsWith(one))) {
        used.add(name);
        return ordinary(request, parent, isMain);
      }
      stood.add(name);
      return emptyModule(name);
    }
    if (PACKAGES.some((one) => request === one || request.startsWith(`${one}/`))) {
      used.add(request);
      return ordinary(request, parent, isMain);
    }
    stood.add(request);
    return emptyModule(request);
  };
  try {
    require('reflect-metadata');
    const { InstanceAiController } = own('n8n/dist/modules/instance-ai/instance-ai.controller.js');
    const { InstanceAiGatewayService } = own('n8n/dist/modules/instance-ai/instance-ai-gateway.service.js');
    const { createToolsFromLocalMcpServer } = own('instance-ai/dist/tools/filesystem/create-tools-from-mcp-server.js');
    const { Container } = require('@n8n/di');
    const { ControllerRegistryMetadata } = require('@n8n/decorators');
    return {
      InstanceAiController,
      InstanceAiGatewayService,
      createToolsFromLocalMcpServer,
      metadata: Container.get(ControllerRegistryMetadata).getControllerMetadata(InstanceAiController),
      paramTypes: (handler) => Reflect.getMetadata('design:paramtypes', InstanceAiController.prototype, handler),
      dto: require('@n8n/api-types'),
      used,
      stood,
    };
  } finally {
    Module._load = ordinary;
  }
}
