// The 50 tools of a page in 3 categories, of 5, 15 and 30 tools, as `console.html` offers them.
const properties = {
  name: {type: 'string', description: 'The name of the one that is meant, as it is shown in the list.'},
  limit: {type: 'integer', minimum: 1, maximum: 100, description: 'The most entries to return.'},
  reason: {type: 'string', description: 'Why it is done, for the record of changes.'},
};
const verbs = ['create', 'list', 'update', 'archive', 'restore'];
const nouns = {
  admin: ['user', 'role', 'team'],
  content: ['page', 'draft', 'image', 'comment', 'tag', 'menu'],
  analytics: ['report'],
};

const toolOf = (verb, noun) => ({
  name: `${verb}_${noun}`,
  description: `${verb[0].toUpperCase()}${verb.slice(1)} a ${noun} of this site, and return what became of it.`,
  inputSchema: {type: 'object', properties, required: ['name']},
  execute: ({name}) => `${verb} ${noun} ${name}`,
});

export const CATEGORIES = Object.fromEntries(
  Object.entries(nouns).map(([kind, own]) => [kind, own.flatMap((noun) => verbs.map((verb) => toolOf(verb, noun)))]));
