// What the page knows: the text, the server's view of it, and the messages.

import type { Trial } from "../live/stream";
import type { Catalog, Stand, Starter, View } from "./view";

export type Sample = { text: string } | { json: string } | { base64: string; name: string };

export interface State {
  file: string;
  text: string;
  view: View | null;
  catalog: Catalog | null;
  saved: string;
  mark: string;
  undo: string[];
  redo: string[];
  problem: string;
  message: string;
  conflict: Stand | null;
  args: Record<string, string>;
  starters: Starter[];
  opened: Trial | null;
}

export const EMPTY: State = {
  file: "",
  text: "",
  view: null,
  catalog: null,
  saved: "",
  mark: "",
  undo: [],
  redo: [],
  problem: "",
  message: "",
  conflict: null,
  args: {},
  starters: [],
  opened: null,
};
