// For authors of pages: `dialIn` offers the tools of `document.modelContext` to a maitred on this machine.
// `where` is the address of a JSON document with `url` and `token`, or a function that returns both. It is asked
// before each connection, since both are others after a restart of the gateway. Returns `close`, which ends it.
const PROTOCOL = 'maitred.v1', LEFT = 4000, REPLACED = 4001;
const MOST_BYTES = 262144, MOST_ANSWER = 80000, FIRST_MS = 500, LAST_MS = 15000;
const OPEN = Symbol.for('maitred.dialIn'), TAB = 'maitred.tab', LOCAL = /^ws:\/\/(127\.0\.0\.1|localhost|\[::1\]):\d{1,5}$/;

// The name of the tab stays when its page is loaded again. A copy of the tab finds none, and makes its own.
const stored = (act) => { try { return act(sessionStorage); } catch { return null; } };
const takeTab = () => stored((store) => { const tab = store.getItem(TAB); store.removeItem(TAB); return tab; });
const keepTab = (tab) => stored((store) => store.setItem(TAB, tab));

const read = async (where) => {
  if (typeof where === 'function') return where();
  const answer = await fetch(where, {cache: 'no-store'});
  if (!answer.ok) throw new Error(`${where} answers ${answer.status}`);
  return answer.json();
};

export function dialIn(where) {
  if (self !== top) {
    console.warn('maitred: a page in a frame does not dial in, since pages around it could be any');
    return {close() {}};
  }
  const earlier = globalThis[OPEN];  // the page calls it again, as development servers do after a change
  earlier?.close();
  const tab = earlier?.tab ?? takeTab() ?? crypto.randomUUID();
  const encoder = new TextEncoder();
  let socket = null, timer = 0, pause = FIRST_MS, dials = 0, isClosed = false, isQuiet = false;

  const post = (text) => {
    if (socket?.readyState !== WebSocket.OPEN) return;
    socket.send(encoder.encode(text).length > MOST_BYTES ? '{"kind":"fault"}' : text);
  };
  const bridged = bridge(Symbol('maitred'), false, MOST_ANSWER);
  if (!bridged) {
    console.warn('maitred: `document.modelContext` of this browser cannot list its tools');
    return {close() {}};
  }
  const {call, cancel, connect, report} = bridged;
  connect(post);
  const hear = async (own, {kind, id, name, input}) => {
    if (kind === 'cancel') cancel(id);
    if (kind !== 'call') return;
    const answer = await call(id, name, input);
    if (socket === own) post(`{"kind":"answer","id":${JSON.stringify(id)},"answer":${answer}}`);
  };
  const again = (why) => {
    if (!isQuiet) console.info(`maitred: not connected, it tries again: ${why}`);
    isQuiet = true;
    timer = setTimeout(dial, pause * (0.75 + Math.random() / 2));
    pause = Math.min(2 * pause, LAST_MS);
  };
  const dial = async () => {
    const number = ++dials;
    let own;
    try {
      const {url, token} = await read(where);
      if (number !== dials) return;
      if (!LOCAL.test(url)) throw new Error(`${url} is not an address of this machine`);
      own = socket = new WebSocket(`${url}/?tab=${tab}`, [PROTOCOL, `token.${token}`]);
    } catch (error) {
      if (number === dials) again(error?.message ?? error);
      return;
    }
    own.onopen = () => { pause = FIRST_MS; isQuiet = false; report(); };
    own.onmessage = ({data}) => hear(own, JSON.parse(data));
    own.onclose = ({code}) => {
      if (socket !== own) return;
      socket = null;
      if (code === REPLACED) console.warn('maitred: another page of this tab has dialed in');
      else again('no gateway takes its connection. Is one running, and this origin in `pages.allow`?');
    };
  };
  const hangUp = () => {
    dials++;
    clearTimeout(timer);
    const own = socket;
    socket = null;
    own?.close(LEFT);
  };
  // A page in the cache for going back would keep its socket, and calls of its tools would get no answer.
  addEventListener('pagehide', () => { hangUp(); if (!isClosed) keepTab(tab); });
  addEventListener('pageshow', ({persisted}) => {
    if (!persisted || isClosed) return;
    takeTab();
    pause = FIRST_MS;
    dial();
  });
  dial();
  return globalThis[OPEN] = {tab, close() { isClosed = true; hangUp(); }};
}
