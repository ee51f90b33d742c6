// Splits the text of a graph file into pieces for colours. The forms are TOML with DOT inside, and DOT.

export interface Piece {
  text: string;
  kind: "" | "comment" | "string" | "number" | "section" | "key" | "word" | "arrow";
}

const TOKENS = new RegExp(
  [
    /(?<comment>#[^\n]*|\/\/[^\n]*|\/\*[\s\S]*?\*\/)/,
    /(?<fence>'''|""")/,
    /(?<string>"(?:[^"\\\n]|\\.)*"|'[^'\n]*')/,
    /(?<section>^[ \t]*\[{1,2}[\w.\-"]+\]{1,2}(?=\s*(?:#|$)))/,
    /(?<arrow>->)/,
    /(?<key>[\w.\-]+(?=\s*=))/,
    /(?<word>\b(?:digraph|graph|subgraph|node|edge|true|false)\b)/,
    /(?<number>(?<![\w.])-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?\b)/,
  ]
    .map((one) => one.source)
    .join("|"),
  "gm",
);

export function splitText(text: string): Piece[] {
  const pieces: Piece[] = [];
  let end = 0;
  for (const found of text.matchAll(TOKENS)) {
    if (found.index > end) pieces.push({ text: text.slice(end, found.index), kind: "" });
    const kind = Object.entries(found.groups!).find(([, one]) => one !== undefined)![0];
    pieces.push({ text: found[0], kind: kind === "fence" ? "" : (kind as Piece["kind"]) });
    end = found.index + found[0].length;
  }
  if (end < text.length) pieces.push({ text: text.slice(end), kind: "" });
  return pieces;
}
