// The server's answers: see modelflow/studio/edit/view.py and catalog.py.

import type { Trial } from "../live/stream";

export interface Port {
  name: string;
  y: number;
  type: string;
  dtype: string | null;
  about: string;
  optional: boolean;
  used: boolean;
  wrong: boolean;
}

export interface Box {
  name: string;
  kind: string;
  role: string;
  unit: string;
  attributes: Record<string, string>;
  x: number;
  y: number;
  width: number;
  height: number;
  pinned: boolean;
  mark: string;
  sign: string;
  inputs: Port[];
  outputs: Port[];
}

export interface End {
  node: string;
  port: string | null;
}

export interface Wire {
  source: string;
  output: string;
  target: string;
  input: string;
  written: [End, End];
  path: string;
}

export interface Picture {
  name: string;
  x: number;
  y: number;
  width: number;
  height: number;
  boxes: Box[];
  wires: Wire[];
}

export interface Finding {
  message: string;
  line: number | null;
  node: string | null;
  port: string | null;
}

export interface Argument {
  name: string;
  help: string;
  default: string;
}

export interface Starter {
  name: string;
  about: string;
}

export interface View {
  text: string;
  args: Argument[];
  added?: string[]; // the names of new nodes, as the answer to an edit
  picture: Picture | null;
  findings: Finding[];
  notes: string[];
  plan: Record<string, Record<string, string>>;
  isStale?: boolean; // whether the picture is that of an earlier text
}

export interface Stand {
  text: string;
  mark: string;
}

export interface Opened extends View {
  trial: Trial;
  file: string;
  saved: string;
  mark: string;
  starters: Starter[];
}

export interface Option {
  name: string;
  type: string;
  choices: string[];
  default: string;
  required: boolean;
  help: string;
}

export interface UnitPort {
  name: string;
  type: string;
  dtype: string | null;
  optional: boolean;
}

export interface Unit {
  name: string;
  kind: string;
  group: string;
  about: string;
  description: string;
  devices: string[];
  inputs: UnitPort[];
  outputs: UnitPort[];
  options: Option[];
}

export interface Catalog {
  units: Unit[];
  settings: Option[];
  problems: string[];
  kinds: string[];
}

export type Operation =
  | { do: "set"; node: string; key: string; value: string }
  | { do: "unset"; node: string; key: string }
  | { do: "add"; name: string; attributes: Record<string, string> }
  | { do: "remove"; nodes: string[] }
  | { do: "rename"; node: string; name: string }
  | { do: "connect" | "disconnect"; source: End; target: End }
  | { do: "move"; places: Record<string, [number, number]> }
  | { do: "tidy" }
  | { do: "paste"; text: string };

/** Whether the types of an output and an input are equal, or one of them is open. */
export function fits(output: { dtype: string | null }, input: { dtype: string | null }): boolean {
  return output.dtype === null || input.dtype === null || output.dtype === input.dtype;
}

/** Returns an end of an edge as the file writes it: without the port if the port is unambiguous. */
export function endOf(box: Box, port: string, side: "inputs" | "outputs"): End {
  const known = box[side].filter((one) => !one.wrong);
  const meant = side === "outputs" ? known.filter((one) => !one.optional) : known;
  const isClear = meant.length === 1 && meant[0]!.name === port;
  return { node: box.name, port: isClear && (side === "outputs" || known.length === 1) ? null : port };
}

export function fileName(path: string): string {
  return path.split(/[\\/]/).at(-1) ?? path;
}
