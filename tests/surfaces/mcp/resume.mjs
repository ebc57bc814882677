// A client of the TypeScript SDK that calls a tool, and prints the answer or the error as one line of JSON.
//
// Usage: node resume.mjs FOLDER URL TOOL ARGUMENTS, where FOLDER has the SDK under node_modules.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [folder, url, tool, given] = process.argv.slice(2);
const require = createRequire(`${folder}/package.json`);
const load = (name) => import(pathToFileURL(require.resolve(`@modelcontextprotocol/sdk/${name}`)).href);
const { Client } = await load("client/index.js");
const { StreamableHTTPClientTransport } = await load("client/streamableHttp.js");

const client = new Client({ name: "resume", version: "1" });
await client.connect(new StreamableHTTPClientTransport(new URL(url)));
try {
  const result = await client.callTool({ name: tool, arguments: JSON.parse(given) });
  console.log(JSON.stringify({ text: result.content[0].text }));
} catch (error) {
  console.log(JSON.stringify({ code: error.code, error: error.message }));
}
await client.close();
