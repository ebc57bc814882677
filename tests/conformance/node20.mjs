// Lets the conformance suite start on Node 20, as in `node --import ./node20.mjs <suite>/dist/index.js`.
//
// The suite is built for Node 22 because its tier report, which we never run, imports `globSync` from `fs`. On
// older versions the missing name alone stops the program from loading, so it gets one that refuses to work.
// Nothing else is changed, and on Node 22 or later nothing at all.
import fs from "node:fs";
import module from "node:module";

const asUrl = (source) => `data:text/javascript,${encodeURIComponent(source)}`;

if (!("globSync" in fs)) {
  const fsWithGlob = asUrl(`
    export * from "node:fs";
    export { default } from "node:fs";
    export function globSync() { throw new Error("globSync needs Node 22"); }
  `);
  module.register(
    asUrl(`
      export function resolve(specifier, context, next) {
        const wanted = specifier === "fs" && context.parentURL?.endsWith("/conformance/dist/index.js");
        return wanted ? { url: "${fsWithGlob}", shortCircuit: true } : next(specifier, context);
      }
    `),
  );
}
