// The sizes of the panes, which the user changes by a drag or by arrow keys. The browser stores them.

import { useState } from "preact/hooks";

export interface Sizes {
  left: number; // pixels
  right: number;
  below: number;
}

const FIRST: Sizes = { left: 224, right: 304, below: 280 };
const LIMITS: Record<keyof Sizes, [number, number]> = { left: [140, 480], right: [200, 640], below: [80, 800] };
const NAMES: Record<keyof Sizes, string> = { left: "Width of the units", right: "Width of the settings", below: "Height of the text" };
const KEY = "modelflow panes";
const STEP = 16;

export function useSizes(): [Sizes, (name: keyof Sizes, size: number) => void] {
  const [sizes, setSizes] = useState(readSizes);
  const change = (name: keyof Sizes, size: number) => {
    const [least, most] = LIMITS[name];
    const room = name === "below" ? innerHeight - 260 : innerWidth / 2 - 60;
    const next = { ...sizes, [name]: Math.round(Math.max(least, Math.min(most, room, size))) };
    setSizes(next);
    try {
      localStorage.setItem(KEY, JSON.stringify(next));
    } catch (error) {
      if (!(error instanceof DOMException)) throw error; // no storage: the sizes last as long as the page
    }
  };
  return [sizes, change];
}

function readSizes(): Sizes {
  let found: Partial<Sizes> = {};
  try {
    found = JSON.parse(localStorage.getItem(KEY) ?? "{}");
  } catch (error) {
    if (!(error instanceof DOMException || error instanceof SyntaxError)) throw error;
  }
  const first = { ...FIRST, below: Math.min(FIRST.below, Math.round(innerHeight * 0.34)) };
  const isSize = ([name, size]: [string, unknown]) => name in FIRST && Number.isFinite(size);
  return { ...first, ...Object.fromEntries(Object.entries(found).filter(isSize)) };
}

export function Splitter(props: { name: keyof Sizes; size: number; onSize: (name: keyof Sizes, size: number) => void }) {
  const { name, size } = props;
  const isAcross = name === "below";
  const sign = name === "left" ? 1 : -1;
  const [least, most] = LIMITS[name];
  const drag = (event: PointerEvent) => {
    if (event.buttons !== 1) return;
    const by = isAcross ? event.movementY : event.movementX;
    if (by) props.onSize(name, size + sign * by);
  };
  return (
    <div
      class={`splitter ${name}`}
      role="separator"
      tabindex={0}
      aria-label={NAMES[name]}
      aria-orientation={isAcross ? "horizontal" : "vertical"}
      aria-valuemin={least}
      aria-valuemax={most}
      aria-valuenow={size}
      onPointerDown={(event) => event.currentTarget.setPointerCapture(event.pointerId)}
      onPointerMove={drag}
      onDblClick={() => props.onSize(name, FIRST[name])}
      onKeyDown={(event) => {
        const more = isAcross ? "ArrowDown" : "ArrowRight";
        const less = isAcross ? "ArrowUp" : "ArrowLeft";
        if (event.key !== more && event.key !== less) return;
        props.onSize(name, size + sign * (event.key === more ? STEP : -STEP));
        event.preventDefault();
        event.stopPropagation();
      }}
    />
  );
}
