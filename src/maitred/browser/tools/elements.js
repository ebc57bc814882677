(() => {
  const TEXT = 100;
  const ATTRIBUTES = ['id', 'name', 'type', 'role', 'href', 'placeholder', 'aria-label', 'title', 'alt', 'for'];
  // The document, then the open shadow roots and the frames of its origin in it, each with those in it.
  const within = (root) => [root, ...[...root.querySelectorAll('*')]
    .flatMap((element) => [element.shadowRoot, element.contentDocument].filter(Boolean).flatMap(within))];
  const all = (selector) => {
    try { return within(document).flatMap((root) => [...root.querySelectorAll(selector)]); }
    catch (error) { throw error?.name === 'SyntaxError' ? {fault: `${JSON.stringify(selector)} is no CSS selector`} : error; }
  };
  const apart = () => {
    const count = within(document).flatMap((root) => [...root.querySelectorAll('iframe, frame')])
      .filter((frame) => (frame.hasAttribute('src') || frame.hasAttribute('srcdoc')) && !frame.contentDocument).length;
    return count ? `; not searched: ${count} ${count > 1 ? 'frames' : 'frame'} of other origins` : '';
  };
  const frameOf = (element) => element.ownerDocument === document ? null : element.ownerDocument.defaultView?.frameElement;
  const around = (element) => {  // the parent of an element, through shadow roots and frames
    const parent = element.parentNode;
    return parent?.nodeType === 1 ? parent : parent?.host ?? frameOf(element);
  };
  const holds = (element, inner) => {
    for (let one = inner; one; one = around(one)) if (one === element) return true;
    return false;
  };
  // A point in a frame, as a point of the page around it.
  const outOf = (frame, {x, y}) => {
    const box = frame.getBoundingClientRect(), style = getComputedStyle(frame);
    const scale = frame.offsetWidth ? box.width / frame.offsetWidth : 1;
    return {x: box.left + (frame.clientLeft + parseFloat(style.paddingLeft) + x) * scale,
      y: box.top + (frame.clientTop + parseFloat(style.paddingTop) + y) * scale};
  };
  const inWindow = (element, point) => {
    for (let frame = frameOf(element); frame; frame = frameOf(frame)) point = outOf(frame, point);
    return point;
  };
  const inner = (frame, {x, y}) => {
    const origin = outOf(frame, {x: 0, y: 0}), unit = outOf(frame, {x: 1, y: 1});
    return {x: (x - origin.x) / (unit.x - origin.x), y: (y - origin.y) / (unit.y - origin.y)};
  };
  const at = (point) => {  // the innermost element at a point of the window
    let root = document, found = null;
    for (;;) {
      const next = root.elementFromPoint(point.x, point.y);
      if (!next || next === found) return found;
      found = next;
      if (next.contentDocument) { point = inner(next, point); root = next.contentDocument; }
      else if (next.shadowRoot) root = next.shadowRoot;
      else return found;
    }
  };
  const short = (text) => {
    const line = String(text ?? '').replace(/\s+/g, ' ').trim();
    return line.length > TEXT ? line.slice(0, TEXT) + '…' : line;
  };
  const visible = (element) => {
    const box = element.getBoundingClientRect(), frame = frameOf(element);
    return box.width > 0 && box.height > 0 && getComputedStyle(element).visibility === 'visible' && (!frame || visible(frame));
  };
  const placed = (element) => {  // what is around an element in a frame or a shadow root
    const host = element.getRootNode().host ?? frameOf(element);
    const name = host?.id || host?.getAttribute('name');
    return host ? ` in <${host.tagName.toLowerCase()}${name ? '#' + short(name) : ''}>` : '';
  };
  const words = (node) => node.nodeType === Node.TEXT_NODE ? node.data
    : ['SELECT', 'TEXTAREA'].includes(node.tagName) ? '' : [...node.childNodes].map(words).join(' ');
  const label = (element) => short(element.labels ? [...element.labels].map(words).join(' ') : '');
  const names = (element) => [element.innerText ?? element.textContent, element.getAttribute('aria-label'),
    element.getAttribute('placeholder'), label(element)].join(' ').toLowerCase();
  const describe = (element) => {
    const parts = ATTRIBUTES.filter((name) => element.hasAttribute(name))
      .map((name) => ` ${name}=${JSON.stringify(short(element.getAttribute(name)))}`);
    if (label(element) && !element.hasAttribute('aria-label')) parts.push(` label=${JSON.stringify(label(element))}`);
    for (const state of ['checked', 'disabled', 'selected', 'readOnly']) {
      if (element[state] === true) parts.push(` ${state.toLowerCase()}`);
    }
    const shows = 'value' in element && element.type !== 'password' && typeof element.value === 'string';
    const value = shows && element.value && element.tagName !== 'LI' ? ` value=${JSON.stringify(short(element.value))}` : '';
    const chosen = element.tagName === 'SELECT' ? short([...element.selectedOptions].map((one) => one.label).join(', ')) : '';
    const choice = chosen && chosen !== element.value ? ` chosen=${JSON.stringify(chosen)}` : '';
    const text = short(element.innerText ?? element.textContent);
    return `<${element.tagName.toLowerCase()}${parts.join('')}${value}${choice}>${text ? ' ' + JSON.stringify(text) : ''}${placed(element)}`;
  };
  const one = (selector, index) => {
    const found = all(selector);
    if (!found.length) throw {fault: `no element fits ${JSON.stringify(selector)}${apart()}`};
    if (index >= found.length) throw {fault: `${found.length} elements fit, so there is no index ${index}; they count from 0`};
    return found[index];
  };
  const answer = (work) => (...given) => {
    try { return work(...given); }
    catch (error) { if (error?.fault) return error; throw error; }
  };
  const write = (element, text) => {
    const prototype = Object.getPrototypeOf(element);
    const setter = Object.getOwnPropertyDescriptor(prototype, 'value')?.set;
    setter ? setter.call(element, text) : element.value = text;
  };
  const fire = (element, ...names) => names.forEach((name) => element.dispatchEvent(new Event(name, {bubbles: true})));
  const choose = (element, text) => {
    const option = [...element.options].find((one) => one.value === text || short(one.label) === text);
    if (!option) throw {fault: `the list has no option ${JSON.stringify(text)}; it has ${[...element.options].slice(0, 20).map((one) => JSON.stringify(short(one.label))).join(', ')}`};
    if (element.multiple) option.selected = true; else element.value = option.value;
    fire(element, 'input', 'change');
  };
  const put = (element, text) => {
    if (element.disabled || element.readOnly) throw {fault: `${describe(element)} cannot be changed`};
    if (element.tagName === 'SELECT') return choose(element, text);
    if (element.tagName === 'INPUT' && ['checkbox', 'radio', 'button', 'submit', 'reset', 'image', 'file'].includes(element.type)) {
      throw {fault: `${describe(element)} takes no text; use click_element`};
    }
    element.focus();
    if (element.tagName === 'INPUT' || element.tagName === 'TEXTAREA') {
      write(element, text);
      if (element.value !== text && text.trim()) {
        throw {fault: `${describe(element)} did not take ${JSON.stringify(short(text))}`};
      }
    } else if (element.isContentEditable) {
      element.textContent = text;
    } else {
      throw {fault: `${describe(element)} is no field`};
    }
    fire(element, 'input', 'change');
  };
  const submit = (element) => {
    if (!element.form) throw {fault: `${describe(element)} is filled, but it is in no form that could be submitted`};
    element.form.requestSubmit();
  };
  return {
    query: answer((selector, {limit, text, hidden}) => {
      const fitting = all(selector).map((element, index) => ({element, index}))
        .filter(({element}) => !text || names(element).includes(text.toLowerCase()));
      const seen = hidden ? fitting : fitting.filter(({element}) => visible(element));
      const elements = seen.slice(0, limit).map(({element, index}) => (
        {index, element: describe(element) + (visible(element) ? '' : ' hidden')}));
      return {elements, fitting: seen.length, hidden: fitting.length - seen.length, apart: elements.length ? '' : apart()};
    }),
    place: answer((selector, index) => {
      const element = one(selector, index);
      if (!visible(element)) throw {fault: `${describe(element)} is hidden`};
      if (element.disabled) throw {fault: `${describe(element)} is disabled`};
      element.scrollIntoView({block: 'center', inline: 'center', behavior: 'instant'});
      const box = [...element.getClientRects()].find((one) => one.width > 0 && one.height > 0) ?? element.getBoundingClientRect();
      const point = inWindow(element, {x: box.left + box.width / 2, y: box.top + box.height / 2});
      const top = at(point);
      const labels = element.labels ? [...element.labels] : [];
      if (top && !holds(element, top) && !holds(top, element) && !labels.some((label) => holds(label, top))) {
        throw {fault: `${describe(element)} is covered by ${describe(top)}`};
      }
      return {point, element: describe(element), in_background: document.visibilityState !== 'visible'};
    }),
    fill: answer((selector, index, {text, submit: then}) => {
      const element = one(selector, index);
      put(element, text);
      if (then) submit(element);
      return describe(element);
    }),
  };
})()
