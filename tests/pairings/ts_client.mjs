// Try every feature through a gateway with the TypeScript SDK, version 1 or 2; prints the outcomes as JSON.
//
// Run as `node ts_client.mjs TARGET MODE MODULES`: MODE is `legacy` or `2026-07-28` (version 2 of the SDK
// speaks both, version 1 the first), MODULES the folder with the packages. See `sdk2_client.py`.

import { createRequire } from 'node:module';
import path from 'node:path';
import { pathToFileURL } from 'node:url';

const [target, mode, modules, version] = [JSON.parse(process.argv[2]), process.argv[3], process.argv[4], process.argv[5]];
const modern = mode !== 'legacy';
const patience = 60_000;
const required = createRequire(pathToFileURL(path.join(modules, 'x.js')));

async function load(name) {
  return import(pathToFileURL(required.resolve(name)).href);
}

let Client, Stdio, Http, types;
if (version === '1') {
  ({ Client } = await load('@modelcontextprotocol/sdk/client/index.js'));
  ({ StdioClientTransport: Stdio } = await load('@modelcontextprotocol/sdk/client/stdio.js'));
  ({ StreamableHTTPClientTransport: Http } = await load('@modelcontextprotocol/sdk/client/streamableHttp.js'));
  types = await load('@modelcontextprotocol/sdk/types.js');
} else {
  ({ Client, StreamableHTTPClientTransport: Http } = await load('@modelcontextprotocol/client'));
  ({ StdioClientTransport: Stdio } = await load('@modelcontextprotocol/client/stdio'));
}

const client = new Client(
  { name: 'pairs', version: '1' },
  {
    capabilities: { elicitation: { form: {}, url: {} }, sampling: { tools: {} }, roots: {} },
    ...(version === '2' ? { versionNegotiation: { mode: modern ? { pin: mode } : 'legacy' } } : {}),
  },
);

const logs = [];
const updated = [];
let tell = () => {};

async function until(isTrue) {
  while (!isTrue()) {
    await new Promise((resolve) => (tell = resolve));
  }
}

function onRequest(method, schema, handler) {
  client.setRequestHandler(version === '1' ? types[schema] : method, handler);
}

function onNotification(method, schema, handler) {
  client.setNotificationHandler(version === '1' ? types[schema] : method, (notice) => {
    handler(notice.params);
    tell();
  });
}

onRequest('elicitation/create', 'ElicitRequestSchema', async ({ params }) =>
  params.mode === 'url' ? { action: 'accept' } : { action: 'accept', content: { name: 'Ann' } });
onRequest('sampling/createMessage', 'CreateMessageRequestSchema', async ({ params }) => ({
  role: 'assistant',
  model: 'm',
  content: { type: 'text', text: params.tools?.length ? `hello with ${params.tools[0].name}` : 'hello' },
}));
onRequest('roots/list', 'ListRootsRequestSchema', async () => ({ roots: [{ uri: 'file:///pairs' }] }));
onNotification('notifications/message', 'LoggingMessageNotificationSchema', ({ level, logger, data }) =>
  logs.push(`${level} ${logger} ${data}`));
onNotification('notifications/resources/updated', 'ResourceUpdatedNotificationSchema', ({ uri }) => updated.push(uri));

async function call(server, tool, options = {}, meta = undefined) {
  const params = { name: `${server}__${tool}`, arguments: {}, ...(meta ? { _meta: meta } : {}) };
  const wait = { timeout: patience, ...options };
  const result = version === '1' ? await client.callTool(params, undefined, wait) : await client.callTool(params, wait);
  return result.content.map((block) => block.text ?? '').join('');
}

let number = 0;

// Asks by the transport: version 2 of the SDK knows no extension, and refuses to send its methods.
function asked(method, params) {
  const id = `task-${(number += 1)}`;
  const others = transport.onmessage;
  const about = 'io.modelcontextprotocol/';
  const _meta = {
    [`${about}protocolVersion`]: mode,
    [`${about}clientInfo`]: { name: 'pairs', version: '1' },
    [`${about}clientCapabilities`]: { extensions: { [`${about}tasks`]: {} } },
  };
  return new Promise((resolve, refuse) => {
    transport.onmessage = (message, extra) => {
      if (message.id !== id) return others(message, extra);
      transport.onmessage = others;
      if (message.error) refuse(new Error(message.error.message));
      else resolve(message.result);
    };
    transport.send({ jsonrpc: '2.0', id, method, params: { ...params, _meta } }).catch(refuse);
  });
}

const features = {
  async 'log messages'(server) {
    logs.length = 0;
    if (!modern) await client.setLoggingLevel('info');
    await call(server, 'log', {}, modern ? { 'io.modelcontextprotocol/logLevel': 'info' } : undefined);
    await until(() => logs.length);
    return logs.join('; ');
  },
  async 'log level'(server) {
    if (modern) return 'not in the protocol';
    await client.setLoggingLevel('error');
    logs.length = 0;
    await call(server, 'log');
    await client.setLoggingLevel('debug');
    await call(server, 'log');
    await until(() => logs.length === 2);
    return logs.join('; ');
  },
  async progress(server) {
    const steps = [];
    await call(server, 'progress', { onprogress: ({ progress, total, message }) => steps.push(`${progress}/${total} ${message}`) });
    return steps.join(', ');
  },
  async cancel(server) {
    const before = Number(await call(server, 'cancelled'));
    const stop = new AbortController();
    const waiting = call(server, 'wait', { signal: stop.signal }).catch(() => {});
    while ((await call(server, 'waiting')) === '0');
    stop.abort('tried');
    await waiting;
    let now = before;
    while (now === before) now = Number(await call(server, 'cancelled'));
    return `${now - before} cancelled`;
  },
  async subscription(server) {
    const { resources } = await client.listResources();
    const [{ uri }] = resources.filter((one) => one.uri.includes(server) && one.uri.endsWith('watched'));
    updated.length = 0;
    const stream = modern ? await client.listen({ resourceSubscriptions: [uri] }) : await client.subscribeResource({ uri });
    await call(server, 'touch');
    await until(() => updated.length);
    await (modern ? stream.close() : client.unsubscribeResource({ uri }));
    return updated.join() === uri ? 'updated' : `updated ${updated}`;
  },
  async tasks(server) {
    const name = `${server}__task`;
    if (!modern) {
      const tasks = client.experimental.tasks;
      const started = {};
      for (const wait of [false, true]) {
        const stream = tasks.callToolStream({ name, arguments: { wait } }, types.CallToolResultSchema, { task: { ttl: 60_000 } });
        for await (const message of stream) {
          if (message.type === 'error') throw message.error;
          if (message.type === 'taskCreated') started[wait] = message.task.taskId;
          if (message.type === 'result') started.said = message.result.content[0].text;
          if (message.type === 'taskCreated' && wait) break;
        }
      }
      const known = new Set((await tasks.listTasks()).tasks.map((one) => one.taskId));
      await tasks.cancelTask(started[true]);
      const { status } = await tasks.getTask(started[true]);
      return `${started.said}, ${status}, ${[started[false], started[true]].filter((one) => known.has(one)).length} listed`;
    }
    const { taskId: ends } = await asked('tools/call', { name, arguments: {} });
    const { taskId: waits } = await asked('tools/call', { name, arguments: { wait: true } });
    let state;
    do state = await asked('tasks/get', { taskId: ends });
    while (state.status === 'working');
    await asked('tasks/cancel', { taskId: waits });
    return `${state.result.content[0].text}, ${(await asked('tasks/get', { taskId: waits })).status}`;
  },
  async completion(server) {
    const ref = { type: 'ref/prompt', name: `${server}__greet` };
    const { completion } = await client.complete({ ref, argument: { name: 'who', value: 'A' } });
    return completion.values.join(', ');
  },
};
for (const name of ['form', 'url', 'sampling', 'sampling_tools', 'roots']) {
  features[name] = (server) => call(server, name);
}

async function outcome(work) {
  let timer;
  const late = new Promise((_, refuse) => (timer = setTimeout(() => refuse(new Error('it took too long')), patience)));
  try {
    return await Promise.race([work(), late]);
  } catch (error) {
    return `FAILED ${error.name}: ${error.message}`;
  } finally {
    clearTimeout(timer);
  }
}

const transport = target.command
  ? new Stdio({ command: target.command[0], args: target.command.slice(1), env: { ...process.env, ...target.env } })
  : new Http(new URL(target.url));
await client.connect(transport);
const outcomes = {};
for (const server of ['handshake', 'stateless']) {
  outcomes[server] = {};
  for (const [name, work] of Object.entries(features)) outcomes[server][name] = await outcome(() => work(server));
}
console.log(JSON.stringify(outcomes));
await client.close();
process.exit(0);
