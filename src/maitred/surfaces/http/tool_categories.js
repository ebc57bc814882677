// Groups the tools of a page into categories that cost an agent one line until it opens them.
//
//   import {toolCategories} from './tool-categories.js';
//   const {registerCategory} = toolCategories();
//   await registerCategory({name: 'admin_tools', description: 'Users and their roles.', tools: [...]});
//
// It uses nothing but `registerTool` and `AbortSignal`, so it works with every WebMCP; it adds nothing to
// `document.modelContext`. A category is a tool. Calling it registers its tools, and names them in the
// result; calling it with {collapse: true} removes them again.
export function toolCategories(context = document.modelContext ?? navigator.modelContext) {
  const categories = new Map();

  function known(name) {
    const category = categories.get(name);
    if (!category) throw new Error(`There is no category ${name}; there are ${[...categories.keys()].join(', ')}`);
    return category;
  }

  function collapseCategory(name) {
    const category = known(name);
    category.open?.abort();
    category.open = null;
  }

  async function expandCategory(name) {
    const category = known(name);
    if (!category.open) {
      const open = category.open = new AbortController();
      const labelled = category.tools.map((tool) => ({...tool,
        inputSchema: {...(tool.inputSchema ?? {type: 'object', properties: {}}), 'x-category': name}}));
      try {
        await Promise.all(labelled.map((tool) => context.registerTool(tool, {signal: open.signal})));
      } catch (error) {  // one of them has a name that is taken, or no description
        collapseCategory(name);
        throw error;
      }
    }
    return category.tools.map(({execute, ...tool}) => tool);
  }

  async function execute(name, input) {
    if (input?.collapse) {
      collapseCategory(name);
      return {content: [{type: 'text', text: `The tools of ${name} are gone until it is called again.`}]};
    }
    const tools = await expandCategory(name);
    const text = tools.map((tool) => `- ${tool.name}: ${tool.description}`).join('\n');
    return {content: [{type: 'text', text}], tools};
  }

  async function registerCategory({name, description, tools}, {signal} = {}) {
    if (categories.has(name)) throw new Error(`There is a category ${name} already`);
    categories.set(name, {tools, open: null});
    signal?.addEventListener('abort', () => { collapseCategory(name); categories.delete(name); });
    try {
      await context.registerTool({name, description: `${description} ${tools.length} tools; call to see them.`,
        inputSchema: {type: 'object', additionalProperties: false,
          properties: {collapse: {type: 'boolean', description: 'Remove them again.'}},
          'x-category': {kind: 'category', toolCount: tools.length}},
        execute: (input) => execute(name, input)}, {signal});
    } catch (error) {
      categories.delete(name);
      throw error;
    }
  }

  const list = () => [...categories].map(([name, {tools, open}]) => ({name, toolCount: tools.length, expanded: !!open}));
  return {registerCategory, expandCategory, collapseCategory, list};
}
