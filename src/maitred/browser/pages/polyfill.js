// `document.modelContext` for browsers without it, as in the draft of WebMCP of October 2026.
// A browser's own one is never replaced.
(() => {
  if ('modelContext' in document) return;
  const tools = new Map();
  const NAME = /^[A-Za-z0-9_.-]{1,128}$/;
  const invalid = (text) => new DOMException(text, 'InvalidStateError');

  class ModelContext extends EventTarget {
    async registerTool(tool, options = {}) {
      if (tool === null || typeof tool !== 'object') throw new TypeError('A tool is an object');
      const name = String(tool.name ?? ''), description = String(tool.description ?? '');
      if (!NAME.test(name)) throw invalid('Invalid tool name');
      if (!description) throw invalid('A tool needs a description');
      if (typeof tool.execute !== 'function') throw new TypeError('A tool needs a function `execute`');
      if (tools.has(name)) throw invalid('Duplicate tool name');
      const signal = options?.signal;
      if (signal?.aborted) return;
      const schema = tool.inputSchema === undefined ? undefined : JSON.parse(JSON.stringify(tool.inputSchema));
      const annotations = {};
      for (const hint of ['readOnlyHint', 'untrustedContentHint', 'consequentialHint', 'destructiveHint', 'idempotentHint'])
        if (tool.annotations?.[hint] === true) annotations[hint] = true;
      const known = {name, title: tool.title === undefined ? '' : String(tool.title), description,
        inputSchema: schema, annotations, execute: tool.execute.bind(tool)};
      tools.set(name, known);
      signal?.addEventListener('abort', () => {
        if (tools.get(name) === known) { tools.delete(name); changed(); }
      }, {once: true});
      changed();
    }

    async getTools() {
      return [...tools.values()].map(({execute, ...tool}) => ({...tool, origin: self.origin, window: self}));
    }

    async executeTool(tool, input = {}, options = {}) {
      const known = tools.get(tool?.name);
      if (!known) throw new DOMException('There is no such tool', 'NotFoundError');
      return known.execute(typeof input === 'string' ? JSON.parse(input) : input, {signal: options?.signal});
    }
  }
  for (const type of ['toolchange', 'toolactivated', 'toolcancel']) {
    const handlers = new WeakMap();
    Object.defineProperty(ModelContext.prototype, 'on' + type, {configurable: true, enumerable: true,
      get() { return handlers.get(this) ?? null; },
      set(handler) {
        const before = handlers.get(this);
        if (before) this.removeEventListener(type, before);
        handlers.delete(this);
        if (typeof handler === 'function') { handlers.set(this, handler); this.addEventListener(type, handler); }
      }});
  }

  const context = new ModelContext();
  const changed = () => queueMicrotask(() => context.dispatchEvent(new Event('toolchange')));
  // on the prototype: the first page of a new window has the global object of its empty document before
  Object.defineProperty(Document.prototype, 'modelContext', {configurable: true, enumerable: true,
    get() { return this.defaultView === globalThis ? context : undefined; }});

  // --- forms with `toolname`, which are tools without a script of their page ------------------------------
  const forms = new Map();
  const SKIPPED = new Set(['submit', 'button', 'reset', 'image', 'file', 'password', 'hidden', 'fieldset', 'output']);
  const fieldsOf = (form) => [...form.elements].filter((one) => one.name && !one.disabled && !SKIPPED.has(one.type));
  const typeOf = (field) => field.type === 'checkbox' ? 'boolean'
    : field.type === 'number' || field.type === 'range' ? 'number' : 'string';
  const schemaOf = (form) => {
    const properties = {}, required = [];
    for (const field of fieldsOf(form)) {
      const known = properties[field.name] ??= {type: typeOf(field)};
      const about = field.getAttribute('toolparamdescription') ?? field.labels?.[0]?.textContent.trim();
      if (about) known.description = about;
      const choices = field.options ? [...field.options].map((one) => one.value) : field.type === 'radio' ? [field.value] : [];
      if (choices.length) known.enum = [...new Set([...(known.enum ?? []), ...choices])];
      if (field.required && !required.includes(field.name)) required.push(field.name);
    }
    return {type: 'object', properties, required};
  };
  const fill = (form, input) => {
    for (const field of fieldsOf(form)) {
      if (!(field.name in input)) continue;
      const value = input[field.name];
      if (field.type === 'checkbox') field.checked = !!value;
      else if (field.type === 'radio') field.checked = field.value === String(value);
      else field.value = String(value);
      for (const type of ['input', 'change']) field.dispatchEvent(new Event(type, {bubbles: true}));
    }
  };
  const submit = (form, signal) => new Promise((resolve, reject) => {
    let response;
    form.addEventListener('submit', (event) => {
      Object.defineProperty(event, 'agentInvoked', {value: true});
      Object.defineProperty(event, 'respondWith', {value: (promise) => { response = Promise.resolve(promise); }});
      setTimeout(() => resolve(response ?? 'submitted'));
    }, {capture: true, once: true, signal});
    signal?.addEventListener('abort', () => reject(new DOMException('The call was cancelled', 'AbortError')));
    if (!form.hasAttribute('toolautosubmit')) { form.scrollIntoView(); return; }  // a person submits it
    if (!form.reportValidity()) reject(new Error('A value does not fit its field'));
    else form.requestSubmit();
  });
  const scan = () => {
    for (const [form, stop] of forms)
      if (!form.isConnected || form.getAttribute('toolname') !== stop.tool) { stop.abort(); forms.delete(form); }
    for (const form of document.querySelectorAll('form[toolname]')) {
      if (forms.has(form)) continue;
      const stop = new AbortController();
      stop.tool = form.getAttribute('toolname');
      forms.set(form, stop);
      context.registerTool({name: stop.tool, description: form.getAttribute('tooldescription') ?? '',
        inputSchema: schemaOf(form), execute: (input, {signal}) => { fill(form, input); return submit(form, signal); },
      }, {signal: stop.signal}).catch(() => {});
    }
  };
  const follow = () => {
    scan();
    new MutationObserver(scan).observe(document,
      {subtree: true, childList: true, attributes: true, attributeFilter: ['toolname']});
  };
  if (document.readyState === 'complete') follow();  // the page loads the module late
  else addEventListener('DOMContentLoaded', follow, true);
  if (document.readyState === 'interactive') scan();

  if (!('ModelContext' in globalThis))
    Object.defineProperty(globalThis, 'ModelContext', {configurable: true, writable: true, value: ModelContext});
})();
