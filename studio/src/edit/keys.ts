// The keys of the editor, and the way of the arrow keys through the picture.

import { type Desk, moveBy } from "./actions";
import { center } from "./canvas/viewport";
import type { Box, Picture } from "./view";

/** What the keys do beside the actions on the graph. */
export interface KeyActions {
  save: () => void;
  run: () => void;
  undo: () => void;
  redo: () => void;
  copy: (isCut: boolean) => void;
  remove: () => void;
  search: () => void;
  find: () => void;
  bringModel: () => void;
  showKeys: () => void;
  showResults: () => void;
  zoom: (by: number) => void;
  fit: () => void;
  cancel: () => void;
  startEdge: (name: string) => void;
  addBehind: (name: string) => void;
  enter: (name: string) => void;
}

const STEP = 16;
const ARROWS: Record<string, [number, number]> = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

/** Handles a key, and prevents the browser's own action for it. */
export function handleKey(event: KeyboardEvent, desk: Desk, act: KeyActions): void {
  if (choose(event, desk, act)) event.preventDefault();
}

function choose(event: KeyboardEvent, desk: Desk, act: KeyActions): boolean {
  const { picture } = desk;
  const name = document.activeElement?.getAttribute("data-body") ?? "";
  const isCommand = (event.ctrlKey || event.metaKey) && !event.altKey; // AltGr is Ctrl and Alt on Windows
  const letter = /^Key.$/.test(event.code) && event.key > "\u007f" ? event.code.slice(3) : event.key; // keyboards without a to z
  const key = isCommand ? `Ctrl+${letter.toLowerCase()}` : event.key;
  const isInDialog = document.querySelector("dialog[open]") !== null;
  if (key === "Ctrl+s") return does(act.save);
  if (isTyping(event) && !["Ctrl+enter", "Ctrl+f"].includes(key)) return false;
  if (isInDialog) return false;
  if (key === "Ctrl+enter") return event.repeat || does(act.run);
  if (key === "Ctrl+f") return does(act.find);
  if (key === "Ctrl+z" && !event.shiftKey) return does(act.undo);
  if (key === "Ctrl+y" || (key === "Ctrl+z" && event.shiftKey)) return does(act.redo);
  if (key === "Ctrl+c" && desk.chosen.length) return does(() => act.copy(false));
  if (key === "Ctrl+x" && desk.chosen.length) return does(() => act.copy(true));
  if (key === "Ctrl+a") return does(() => desk.select(picture?.boxes.map((box) => box.name) ?? []));
  const arrow = ARROWS[event.key];
  if (event.altKey && arrow && desk.chosen.length && name) return does(() => moveBy(desk, { x: arrow[0] * STEP, y: arrow[1] * STEP }));
  if (isCommand || event.altKey) return false;
  if (key === "/") return does(act.search);
  if (key === "?") return does(act.showKeys);
  if (key === "m") return does(act.bringModel);
  if (key === "r") return does(act.showResults);
  if (key === "+" || key === "=") return does(() => act.zoom(1.25));
  if (key === "-") return does(() => act.zoom(0.8));
  if (key === "0") return does(act.fit);
  if (!picture) return false; // the other keys act on nodes
  if (key === "Delete" || key === "Backspace") return does(act.remove);
  if (key === "Escape") return does(act.cancel);
  if (arrow) {
    const next = neighbour(picture, name, key);
    return next !== undefined && does(() => desk.focus(next));
  }
  if (!name) return false;
  if (key === "c") return does(() => act.startEdge(name));
  if (key === "a") return does(() => act.addBehind(name));
  return (key === "Enter" || key === " ") && does(() => act.enter(name));
}

function does(action: () => void): true {
  action();
  return true;
}

/** Whether a key event belongs to a field or a dialog. */
export function isTyping(event: Event): boolean {
  const target = event.target as Element | null;
  return !!target?.closest?.("input, textarea, select") || document.querySelector("dialog[open]") !== null;
}

/** Returns the node that an arrow key leads to. */
function neighbour(picture: Picture, from: string, key: string): string | undefined {
  const box = picture.boxes.find((one) => one.name === from);
  if (!box) return picture.boxes[0]?.name;
  if (key === "ArrowRight") return picture.wires.find((wire) => wire.source === from)?.target;
  if (key === "ArrowLeft") return picture.wires.find((wire) => wire.target === from)?.source;
  const sign = key === "ArrowDown" ? 1 : -1;
  const far = (one: Box) => Math.abs(center(one).y - center(box).y) + 2 * Math.abs(center(one).x - center(box).x);
  const there = picture.boxes.filter((one) => (center(one).y - center(box).y) * sign > 0);
  return there.sort((one, other) => far(one) - far(other))[0]?.name;
}

