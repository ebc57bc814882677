// Decides in a new document whether it may have tools: by its own origin, and those of all frames around it.
// The page may have changed any function before, so none is called with what the operator wrote: only
// operators and own properties are used.
(rules, prepare) => {
  const part = (text, from, to) => {
    let found = '';
    for (let i = from; i < to && i < text.length; i++) found += text[i];
    return found;
  };
  const fits = (list, origin) => {
    let at = 0;
    while (at < origin.length && origin[at] !== ':') at++;
    const scheme = part(origin, 0, at);
    if ((scheme !== 'http' && scheme !== 'https') || part(origin, at, at + 3) !== '://') return false;
    let end = origin.length;
    for (let i = at + 3; i < origin.length; i++) end = origin[i] === ']' ? origin.length : origin[i] === ':' ? i : end;
    const host = part(origin, at + 3, end);
    const port = end < origin.length ? part(origin, end + 1, origin.length) : scheme === 'http' ? '80' : '443';
    for (let i = 0; i < list.length; i++) {
      const one = list[i];
      const isHost = one.below ? part(host, host.length - one.host.length - 1, host.length) === '.' + one.host
        : host === one.host;
      if (isHost && scheme === one.scheme && (one.port === '*' || one.port === port)) return true;
    }
    return false;
  };
  const allowed = (origin) => typeof origin === 'string' && fits(rules.allow, origin) && !fits(rules.deny, origin);
  // The first page of a new window or frame may get the global object of its empty document, but a browser's own
  // interface belongs to the document, so that of an empty one is left alone.
  if ((location.href === 'about:blank' && 'modelContext' in document) || !isSecureContext || !allowed(self.origin)) return;
  if (location.href !== 'about:blank' && !allowed(location.origin)) return;  // a page can replace `self.origin`
  for (let i = 0; i < location.ancestorOrigins.length; i++) if (!allowed(location.ancestorOrigins[i])) return;
  prepare();
}
