// Reports the tools of a document to the gateway, and runs those that it calls. `key` names the property by
// which the gateway finds `call`, and `connect`, which gets the function that sends a text to the gateway.
// With `usesNative`, the browser itself reports the tools of its own interface, but not those of frames. `most` is
// how many characters of an answer are sent. Returns what `key` names: `call`, `cancel`, `connect`, and `report`,
// which reports the tools soon.
(key, usesNative, most = 1000000) => {
  const context = document.modelContext;
  if (typeof context?.getTools !== 'function' || typeof context.executeTool !== 'function' || globalThis[key]) return;
  const {stringify, parse} = JSON;
  const MOST = 262144, MOST_SCHEMA = 32768, MOST_TEXT = 2000, DELAY_MS = 50;
  let isNative = false;
  try { isNative = /native code/.test(Function.prototype.toString.call(context.registerTool)); } catch {}
  const isReported = usesNative && isNative && self === top;
  const allTools = context.getTools.bind(context), executeTool = context.executeTool.bind(context);
  // a browser's own interface lists the tools of frames as well, which their own document reports
  const getTools = async () => (await allTools()).filter((tool) => (tool.window ?? self) === self);
  const later = setTimeout.bind(globalThis);
  const running = new Map();
  if (!('modelContext' in navigator))
    Object.defineProperty(navigator, 'modelContext', {configurable: true, get: () => document.modelContext});

  const described = (tool) => {
    let schema = tool.inputSchema;
    if (typeof schema === 'string') { try { schema = parse(schema); } catch { schema = null; } }
    if (stringify(schema)?.length > MOST_SCHEMA) schema = 'too large';  // the gateway leaves the tool out
    const description = typeof tool.description === 'string' ? tool.description.slice(0, MOST_TEXT) : null;
    return {name: tool.name, title: tool.title, description, inputSchema: schema,
      annotations: tool.annotations ? {...tool.annotations} : undefined};
  };
  let post = null;
  const send = (message) => {
    if (!post) return;
    let text = '';
    try { text = stringify(message); } catch (error) { text = stringify({kind: 'fault'}); }
    try { post(text.length > MOST ? stringify({kind: 'fault', size: text.length}) : text); } catch {}
  };
  let waiting = false, isAgain = false;
  const push = async () => {
    let tools = [];
    try { tools = (await getTools()).map(described); } catch {}
    send({kind: 'tools', tools});
    waiting = false;
    if (isAgain) { isAgain = false; soon(); }
  };
  const soon = () => {
    if (isReported || !post) return;
    if (waiting) { isAgain = true; return; }
    waiting = true;
    later(push, DELAY_MS);
  };
  context.addEventListener('toolchange', soon);
  addEventListener('pageshow', (event) => { if (event.persisted) soon(); });
  addEventListener('focus', () => send({kind: 'focus'}));
  addEventListener('visibilitychange', () => { if (!document.hidden) send({kind: 'focus'}); }, true);

  // A browser's own interface answers with texts of JSON, and with `undefined` where there is nothing.
  const read = (text) => {
    if (text === 'undefined') return null;
    try { const value = parse(text); return value !== null && typeof value === 'object' ? value : text; } catch { return text; }
  };
  const packed = (value) => {
    let text = value === undefined ? 'null' : stringify(value);
    if (text === undefined) text = stringify(String(value));
    return text.length > most ? stringify({cut: text.slice(0, most), size: text.length}) : '{"value":' + text + '}';
  };
  const call = async (id, name, text) => {
    const abort = new AbortController();
    running.set(id, abort);
    try {
      const tool = (await getTools()).find((one) => one.name === name);
      if (!tool) return stringify({fault: 'missing'});
      const input = parse(text);
      let value = await executeTool(tool, isNative ? input : text, {signal: abort.signal});
      if (isNative && typeof value === 'string') value = read(value);
      return packed(value);
    } catch (error) {
      let why = 'an exception that is no text';
      try { why = String(error?.name ?? 'Error') + ': ' + String(error?.message ?? error); } catch {}
      return stringify({fault: 'threw', why: why.slice(0, 500)});
    } finally {
      running.delete(id);
    }
  };
  const cancel = (id) => {
    running.get(id)?.abort();
    try { context.dispatchEvent(new Event('toolcancel')); } catch {}
  };
  const connect = (way) => { post = way; soon(); };
  const own = Object.freeze({call, cancel, connect, report: soon});
  Object.defineProperty(globalThis, key, {value: own});
  return own;
}
