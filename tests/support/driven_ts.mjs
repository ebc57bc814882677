// A client on the TypeScript SDK 2 that a test drives, in either era; see `sdk_clients.py`.
//
// Run as `node driven_ts.mjs TARGET MODE MODULES`: MODE is `legacy` or `2026-07-28`, MODULES the folder with
// the packages. Each line of its standard input is a command.

import { createRequire } from 'node:module';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { pathToFileURL } from 'node:url';

const [target, mode, modules] = [JSON.parse(process.argv[2]), process.argv[3], process.argv[4]];
const patience = 120_000;
const required = createRequire(pathToFileURL(path.join(modules, 'x.js')));
const load = (name) => import(pathToFileURL(required.resolve(name)).href);
const { Client, StreamableHTTPClientTransport: Http } = await load('@modelcontextprotocol/client');
const { StdioClientTransport: Stdio } = await load('@modelcontextprotocol/client/stdio');

const say = (message) => process.stdout.write(`${JSON.stringify(message)}\n`);

const client = new Client(
  { name: target.client ?? 'driven', version: '1' },
  {
    capabilities: { elicitation: { form: {} } },
    versionNegotiation: { mode: mode === 'legacy' ? 'legacy' : { pin: mode } },
  },
);

// The user gives the answer that the test chose last; without one, waits for it.
let answer = null;
let decided = () => {};
client.setRequestHandler('elicitation/create', async ({ params }) => {
  say({ asked: params.message });
  while (answer === null) await new Promise((resolve) => (decided = resolve));
  return answer;
});
client.setNotificationHandler('notifications/tools/list_changed', () => say({ notice: 'tools' }));

const commands = {
  async answer(command) {
    answer = command.with;
    if (answer !== null) decided();
    return {};
  },
  async list() {
    const { tools } = await client.listTools(undefined, { cacheMode: 'refresh' });
    return { tools };
  },
  async call(command) {
    return client.callTool({ name: command.name, arguments: command.arguments }, { timeout: patience });
  },
};

const transport = target.command
  ? new Stdio({ command: target.command[0], args: target.command.slice(1), env: { ...process.env, ...target.env } })
  : new Http(new URL(target.url));
await client.connect(transport);
say({ ready: true });
const lines = createInterface({ input: process.stdin });
lines.on('line', (line) => {
  const command = JSON.parse(line);
  commands[command.do](command).then(
    (result) => say({ id: command.id, result }),
    (error) => say({ id: command.id, error: `${error.name}: ${error.message}` }),
  );
});
lines.on('close', async () => {
  await client.close();
  process.exit(0);
});
