// The gestures of the mouse in the picture, and the places that they hit.

import type { Box, Picture } from "../view";
import type { Point, Viewport } from "./viewport";

/** A gesture from the press of the button to its release. Points are pixels of the canvas. */
export interface Drag {
  is: "pan" | "select" | "nodes" | "wire";
  names: string[]; // the moved nodes, the node of the wire, or the nodes that were selected before
  port: string;
  side: "inputs" | "outputs";
  begin: Point;
  now: Point;
  hasMoved: boolean;
  isFree: boolean; // the Alt key: no alignment
}

export interface Hit {
  node: string;
  input: string | null;
  output: string | null;
  wire: number; // the place of the wire in the picture, or -1
}

const LEAST = 3;
// The distance in pixels at which a moved box aligns with another.
const REACH = 6;

/** Returns the gesture after a move of the mouse. */
export function follow(drag: Drag, now: Point, isFree: boolean): Drag {
  const hasMoved = drag.hasMoved || Math.hypot(now.x - drag.begin.x, now.y - drag.begin.y) > LEAST;
  return { ...drag, now, hasMoved, isFree };
}

/** Returns the node, port and wire at a point of the window, looking through the given nodes. */
export function hit(x: number, y: number, through: string[] = []): Hit {
  const found: Hit = { node: "", input: null, output: null, wire: -1 };
  for (const element of document.elementsFromPoint(x, y)) {
    const node = element.closest("[data-node]")?.getAttribute("data-node") ?? "";
    if (node && !found.node && !through.includes(node)) {
      found.node = node;
      found.input = element.closest("[data-input]")?.getAttribute("data-input") ?? null;
      found.output = element.closest("[data-output]")?.getAttribute("data-output") ?? null;
    }
    const wire = element.closest("[data-place]")?.getAttribute("data-place");
    if (wire != null && found.wire < 0) found.wire = Number(wire);
  }
  return found;
}

export interface Shift {
  by: Point;
  x: number | null; // the vertical line on which centers are aligned
  y: number | null;
}

/** Returns the way of the moved nodes in the picture. Their first node aligns with the other nodes. */
export function shiftOf(drag: Drag, picture: Picture, viewport: Viewport): Shift {
  const by = { x: (drag.now.x - drag.begin.x) / viewport.k, y: (drag.now.y - drag.begin.y) / viewport.k };
  const first = picture.boxes.find((box) => box.name === drag.names[0]);
  if (!first || drag.isFree || !drag.hasMoved) return { by, x: null, y: null };
  const others = picture.boxes.filter((box) => !drag.names.includes(box.name));
  const align = (middle: (box: Box) => number, way: number) => {
    const at = middle(first) + way;
    const near = others.map(middle).filter((one) => Math.abs(one - at) < REACH / viewport.k);
    return near.sort((one, other) => Math.abs(one - at) - Math.abs(other - at))[0] ?? null;
  };
  const across = (box: Box) => box.x + box.width / 2;
  const down = (box: Box) => box.y + box.height / 2;
  const [x, y] = [align(across, by.x), align(down, by.y)];
  return { by: { x: x === null ? by.x : x - across(first), y: y === null ? by.y : y - down(first) }, x, y };
}

/** Returns the corners of the selected area in the picture. */
export function areaOf(drag: Drag, viewport: Viewport) {
  const [x, y] = [Math.min(drag.begin.x, drag.now.x), Math.min(drag.begin.y, drag.now.y)];
  return {
    x: (x - viewport.x) / viewport.k,
    y: (y - viewport.y) / viewport.k,
    width: Math.abs(drag.now.x - drag.begin.x) / viewport.k,
    height: Math.abs(drag.now.y - drag.begin.y) / viewport.k,
  };
}

/** Returns the names of the boxes that touch the selected area, and of those selected before. */
export function namesIn(drag: Drag, picture: Picture, viewport: Viewport): string[] {
  const area = areaOf(drag, viewport);
  const touches = (box: Box) => box.x < area.x + area.width && box.x + box.width > area.x && box.y < area.y + area.height && box.y + box.height > area.y;
  const found = picture.boxes.filter(touches).map((box) => box.name);
  return [...new Set([...drag.names, ...found])];
}
