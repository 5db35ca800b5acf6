// Gives every .mmd file of a folder to the real Mermaid parser: `node check.mjs FOLDER`.
// Mermaid is written for browsers and sanitises labels while it parses, so it needs a DOM, if a small one.
import { readFile, readdir } from "node:fs/promises";
import { join } from "node:path";
import { Window } from "happy-dom";

globalThis.window = new Window();
globalThis.document = window.document;
const { default: mermaid } = await import("mermaid");

const folder = process.argv[2];
const names = (await readdir(folder)).filter((name) => name.endsWith(".mmd")).sort();
let refused = 0;
for (const name of names) {
  const text = await readFile(join(folder, name), "utf8");
  try {
    await mermaid.parse(text);
  } catch (error) {
    refused += 1;
    console.error(`${name}: ${error.message}\n--- the diagram\n${text}\n---`);
  }
}

if (names.length === 0) console.error(`no .mmd file in ${folder}: the tests that write them did not run`);
else console.log(`mermaid: ${names.length - refused} of ${names.length} diagrams parse`);
process.exit(refused > 0 || names.length === 0 ? 1 : 0);
