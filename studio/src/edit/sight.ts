// Geometry of the picture: the visible part, and the places of ports.

import type { Box, Picture } from "./view";

export interface Point {
  x: number;
  y: number;
}

/** The visible part: point p of the picture is at p * k + (x, y) of the canvas. */
export interface Sight extends Point {
  k: number;
}

export const HOME: Sight = { x: 20, y: 20, k: 1 };

const [LEAST, MOST, MARGIN] = [0.1, 4, 24];
// The smallest scale at which texts of 12 pixels are readable.
const SMALLEST = 0.6;

export function zoomed(sight: Sight, at: Point, by: number): Sight {
  const k = Math.min(MOST, Math.max(LEAST, sight.k * by));
  const f = k / sight.k;
  return { k, x: at.x - (at.x - sight.x) * f, y: at.y - (at.y - sight.y) * f };
}

export function fitted(picture: Picture, width: number, height: number): Sight {
  const wide = (width - 2 * MARGIN) / Math.max(1, picture.width);
  const high = (height - 2 * MARGIN) / Math.max(1, picture.height);
  const k = Math.min(1, Math.max(LEAST, Math.min(wide, high)));
  return {
    k,
    x: (width - picture.width * k) / 2 - picture.x * k,
    y: (height - picture.height * k) / 2 - picture.y * k,
  };
}

/** Like `fitted`, but never too small to read. A larger graph is shown from its sources on. */
export function readable(picture: Picture, width: number, height: number): Sight {
  const whole = fitted(picture, width, height);
  if (whole.k >= SMALLEST) return whole;
  const high = Math.min(picture.height * SMALLEST, height - 2 * MARGIN);
  return { k: SMALLEST, x: MARGIN - picture.x * SMALLEST, y: (height - high) / 2 - picture.y * SMALLEST };
}

export function moved(box: Box, by: Point): Box {
  return { ...box, x: box.x + by.x, y: box.y + by.y };
}

export function portAt(box: Box, port: string, side: "inputs" | "outputs"): Point {
  const found = box[side].find((one) => one.name === port);
  return { x: box.x + (side === "outputs" ? box.width : 0), y: box.y + (found?.y ?? box.height / 2) };
}

export function curve(from: Point, to: Point): string {
  const bend = Math.max(24, Math.abs(to.x - from.x) / 2);
  return `M${from.x} ${from.y}C${from.x + bend} ${from.y} ${to.x - bend} ${to.y} ${to.x} ${to.y}`;
}
