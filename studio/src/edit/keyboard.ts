// Keyboard navigation in the picture.

import type { Box, Picture } from "./view";

/** Whether a key event belongs to a field or a dialog. */
export function isTyping(event: Event): boolean {
  const target = event.target as Element | null;
  return !!target?.closest?.("input, textarea, select, dialog");
}

/** Returns the node that an arrow key leads to. */
export function neighbour(picture: Picture, from: string, key: string): string | undefined {
  const box = picture.boxes.find((one) => one.name === from);
  if (!box) return picture.boxes[0]?.name;
  if (key === "ArrowRight") return picture.wires.find((wire) => wire.source === from)?.target;
  if (key === "ArrowLeft") return picture.wires.find((wire) => wire.target === from)?.source;
  const sign = key === "ArrowDown" ? 1 : -1;
  const far = (one: Box) => Math.abs(middle(one).y - middle(box).y) + 2 * Math.abs(middle(one).x - middle(box).x);
  const there = picture.boxes.filter((one) => (middle(one).y - middle(box).y) * sign > 0);
  return there.sort((one, other) => far(one) - far(other))[0]?.name;
}

function middle(box: Box) {
  return { x: box.x + box.width / 2, y: box.y + box.height / 2 };
}
