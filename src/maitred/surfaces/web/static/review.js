// Reading before deciding: a part counts as read once its beginning and its end were on screen.
// Keys: j and k move, a approves, r refuses, ? shows the keys.

const form = document.getElementById("decision");
const approve = form?.querySelector("[data-approve]");
const boxes = [...(form?.querySelectorAll("input[name=read]") ?? [])];

function count() {
  const left = boxes.filter((one) => !one.checked).length;
  if (!approve) return;
  approve.setAttribute("aria-disabled", String(left > 0));
  const status = document.getElementById("unread");
  const parts = boxes.length === 1 ? "part" : "parts";
  const were = left === 1 ? "was" : "were";
  if (status) status.textContent = left ? `${left} of ${boxes.length} ${parts} ${were} not on screen yet.` : "";
}

/** Ticks the box of a part when both ends of the part were on screen, each for a moment. */
function watch(box) {
  const part = box.closest(".part");
  const label = box.closest("label");
  const ends = new Set();
  const timers = new Map();
  const observer = new IntersectionObserver(
    (entries) => {
      for (const entry of entries) {
        clearTimeout(timers.get(entry.target));
        if (!entry.isIntersecting) continue;
        timers.set(
          entry.target,
          setTimeout(() => {
            ends.add(entry.target);
            if (ends.size < 2) return;
            box.checked = true;
            observer.disconnect();
            count();
          }, 250),
        );
      }
    },
    { threshold: 1, rootMargin: `0px 0px -${form.querySelector(".decide")?.offsetHeight ?? 0}px 0px` },
  );
  observer.observe(part.querySelector("h2"));
  observer.observe(label);
}

if (form && "IntersectionObserver" in globalThis) {
  form.noValidate = true; // this module says what is missing
  form.classList.add("watched");
  for (const box of boxes) {
    box.addEventListener("change", count);
    watch(box);
  }
  form.addEventListener("submit", (event) => {
    const next = boxes.find((one) => !one.checked);
    if (event.submitter !== approve || !next) return;
    event.preventDefault();
    next.closest(".part").scrollIntoView({ block: "end" });
  });
  count();
}

const steps = () => [...document.querySelectorAll("[data-step]")];

function move(by) {
  const every = steps();
  if (!every.length) return;
  const at = every.findIndex((one) => one === document.activeElement || one.contains(document.activeElement));
  const next = every[Math.min(Math.max(at + by, 0), every.length - 1)];
  next.focus({ preventScroll: true });
  next.scrollIntoView({ block: next.offsetHeight > innerHeight ? "start" : "nearest" });
}

const keys = {
  j: () => move(1),
  k: () => move(-1),
  a: () => approve && !approve.disabled && form.requestSubmit(approve),
  r: () => form?.querySelector("[data-refuse]") && form.requestSubmit(form.querySelector("[data-refuse]")),
  "?": () => {
    const help = document.getElementById("keys");
    if (help) help.open = !help.open;
  },
};

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
  if (event.target.closest?.("input:not([type=checkbox]), textarea, select, [contenteditable]")) return;
  const act = keys[event.key];
  if (!act) return;
  event.preventDefault();
  act();
});
