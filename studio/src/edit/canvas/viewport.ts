// The visible part of the picture, and the geometry of boxes, ports and wires.

import type { Box, Picture } from "../view";

export interface Point {
  x: number;
  y: number;
}

export interface Size {
  width: number;
  height: number;
}

/** The visible part: point p of the picture is at p * k + (x, y) of the canvas. */
export interface Viewport extends Point {
  k: number;
}

export const HOME: Viewport = { x: 20, y: 20, k: 1 };

const [LEAST, MOST, MARGIN] = [0.1, 4, 24];
// The smallest scale at which texts of 12 pixels are readable.
const SMALLEST = 0.6;

export function zoom(viewport: Viewport, at: Point, by: number): Viewport {
  const k = Math.min(MOST, Math.max(LEAST, viewport.k * by));
  const f = k / viewport.k;
  return { k, x: at.x - (at.x - viewport.x) * f, y: at.y - (at.y - viewport.y) * f };
}

/** Returns the viewport that shows the whole picture. */
export function fit(picture: Picture, size: Size): Viewport {
  const wide = (size.width - 2 * MARGIN) / Math.max(1, picture.width);
  const high = (size.height - 2 * MARGIN) / Math.max(1, picture.height);
  const k = Math.min(1, Math.max(LEAST, Math.min(wide, high)));
  return {
    k,
    x: (size.width - picture.width * k) / 2 - picture.x * k,
    y: (size.height - picture.height * k) / 2 - picture.y * k,
  };
}

/** Like `fit`, but never too small to read. A larger graph is shown from its sources on. */
export function fitReadable(picture: Picture, size: Size): Viewport {
  const whole = fit(picture, size);
  if (whole.k >= SMALLEST) return whole;
  const high = Math.min(picture.height * SMALLEST, size.height - 2 * MARGIN);
  return { k: SMALLEST, x: MARGIN - picture.x * SMALLEST, y: (size.height - high) / 2 - picture.y * SMALLEST };
}

/** Returns the nearest viewport that shows the boxes, or the first of them if they do not fit. */
export function reveal(viewport: Viewport, boxes: Box[], size: Size): Viewport {
  if (!boxes.length) return viewport;
  const { k } = viewport;
  const span = (low: (box: Box) => number, high: (box: Box) => number) => [Math.min(...boxes.map(low)) * k, Math.max(...boxes.map(high)) * k] as const;
  const [left, right] = span((box) => box.x, (box) => box.x + box.width);
  const [top, bottom] = span((box) => box.y, (box) => box.y + box.height);
  return { k, x: into(viewport.x, left, right, size.width), y: into(viewport.y, top, bottom, size.height) };
}

/** Returns the shift nearest to `at` with which `low` to `high` lies inside of `length`. */
function into(at: number, low: number, high: number, length: number): number {
  const [least, most] = [MARGIN - low, length - MARGIN - high];
  return most < least ? least : Math.min(most, Math.max(least, at));
}

export function center(box: Box): Point {
  return { x: box.x + box.width / 2, y: box.y + box.height / 2 };
}

export function shift(box: Box, by: Point): Box {
  return { ...box, x: box.x + by.x, y: box.y + by.y };
}

export function locatePort(box: Box, port: string, side: "inputs" | "outputs"): Point {
  const found = box[side].find((one) => one.name === port);
  return { x: box.x + (side === "outputs" ? box.width : 0), y: box.y + (found?.y ?? box.height / 2) };
}

/** Returns the path of a wire. A wire that leads back runs below both of its ends. */
export function drawCurve(from: Point, to: Point): string {
  if (to.x < from.x - 20) {
    const low = Math.max(from.y, to.y) + 90;
    return `M${from.x} ${from.y}C${from.x + 70} ${from.y} ${from.x + 70} ${low} ${(from.x + to.x) / 2} ${low}S${to.x - 70} ${to.y} ${to.x} ${to.y}`;
  }
  const bend = Math.max(24, Math.abs(to.x - from.x) / 2);
  return `M${from.x} ${from.y}C${from.x + bend} ${from.y} ${to.x - bend} ${to.y} ${to.x} ${to.y}`;
}
