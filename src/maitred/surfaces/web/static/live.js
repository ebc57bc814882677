// Keeps a page true: the gateway names the fragments that changed, and the page fetches itself and takes these.
//
// An element with an id and `data-live="servers server:github"` is replaced when one of its fragments changed.
// The place of the page in the sequence of changes is in the script element; the browser sends the last one again.

const script = document.querySelector("script[data-position]");
const policy = globalThis.trustedTypes?.createPolicy("maitred", { createHTML: (text) => text });
const parse = (text) => new DOMParser().parseFromString(policy ? policy.createHTML(text) : text, "text/html");

const waiting = new Set();
let busy = false;

const concerned = (names) =>
  [...document.querySelectorAll("[data-live][id]")].filter(
    (one) => names.has("*") || one.dataset.live.split(/\s+/).some((name) => names.has(name)),
  );

/** Whether a person is writing or choosing in an element, so that it must stay as it is. */
function inUse(element) {
  const fields = element.querySelectorAll("input, textarea, select");
  return [...fields].some((one) => {
    if (one === document.activeElement && one.type !== "hidden") return true;
    if (one.type === "checkbox" || one.type === "radio") return one.checked !== one.defaultChecked;
    if (one.tagName === "SELECT") return [...one.options].some((o) => o.selected !== o.defaultSelected);
    return one.type !== "hidden" && one.value !== one.defaultValue;
  });
}

/** Where the focus is inside of an element, in a form that finds its successor. */
function focusIn(element) {
  const at = document.activeElement;
  if (!at || !element.contains(at)) return null;
  if (at.id) return (next) => next.ownerDocument.getElementById(at.id);
  const same = (root) => [...root.querySelectorAll("a, button, input, select, textarea, summary, [tabindex]")];
  const place = same(element).indexOf(at);
  return (next) => same(next)[place];
}

function replace(old, next) {
  if (old.isEqualNode(next)) return;
  const find = focusIn(old);
  const open = new Set([...old.querySelectorAll("details[id][open]")].map((one) => one.id));
  const places = [...old.querySelectorAll(".scroll")].map((one) => [one.scrollLeft, one.scrollTop]);
  const taken = document.adoptNode(next);
  for (const one of taken.querySelectorAll("details[id]")) one.open = one.open || open.has(one.id);
  old.replaceWith(taken);
  taken.querySelectorAll(".scroll").forEach((one, at) => {
    if (places[at]) [one.scrollLeft, one.scrollTop] = places[at];
  });
  find?.(taken)?.focus({ preventScroll: true });
  taken.dispatchEvent(new CustomEvent("maitred:replaced", { bubbles: true }));
}

async function refresh() {
  if (busy) return;
  busy = true;
  try {
    while (waiting.size) {
      const names = new Set(waiting);
      waiting.clear();
      if (!concerned(names).length) continue;
      const began = performance.now();
      const answer = await fetch(location.href, { headers: { "Maitred-Live": "1" }, redirect: "manual" });
      if (answer.type === "opaqueredirect") return location.reload(); // the session is over
      if (!answer.ok) continue;
      const page = parse(await answer.text());
      for (const old of concerned(names)) {
        const next = page.getElementById(old.id);
        if (next && !inUse(old)) replace(old, next);
      }
      // A page that takes long to make is asked for less often: a fifth of the time at most.
      await new Promise((go) => setTimeout(go, 4 * (performance.now() - began)));
    }
  } catch {
    // The gateway is away. The stream connects again, and then names what changed.
  } finally {
    busy = false;
  }
}

let position = script?.dataset.position ?? "";
let source = null;

const show = (state) => (document.documentElement.dataset.stream = state);

/** Connects where the page is seen; a browser has few connections for all windows of one gateway. */
function connect() {
  if (source || document.hidden) return;
  show("connecting");
  source = new EventSource(`/ui/events?after=${encodeURIComponent(position)}`);
  source.addEventListener("changed", (event) => {
    position = event.lastEventId;
    for (const name of event.data.split("\n")) waiting.add(name);
    refresh();
  });
  source.addEventListener("open", () => show("open"));
  source.addEventListener("error", () => show(source?.readyState === EventSource.CLOSED ? "closed" : "lost"));
}

function disconnect() {
  source?.close();
  source = null;
  show("paused");
}

if (script) {
  document.addEventListener("visibilitychange", () => (document.hidden ? disconnect() : connect()));
  addEventListener("pagehide", disconnect);
  addEventListener("pageshow", connect);
  connect();
}
