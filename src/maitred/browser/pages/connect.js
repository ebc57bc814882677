// Gives a document of an allowed origin the way to the gateway. `prepare` makes what a document lacks that was
// loaded before the gateway came.
(binding, key, prepare) => {
  const post = globalThis[binding];
  try { delete globalThis[binding]; } catch {}
  if (typeof post !== 'function' || !isSecureContext) return;
  if (location.href === 'about:blank' && 'modelContext' in document && !globalThis[key]) return;
  if (!globalThis[key]) prepare();
  globalThis[key]?.connect(post);
}
