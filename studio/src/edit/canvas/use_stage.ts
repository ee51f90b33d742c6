// The part of the picture that is shown, and its moves.

import { useEffect, useRef, useState } from "preact/hooks";
import type { Work } from "../work";
import { fit, fitReadable, HOME, reveal, type Size, type Viewport, zoom } from "./viewport";

export function useStage(work: Work) {
  const [viewport, setViewport] = useState<Viewport>(HOME);
  const [size, setSize] = useState<Size>({ width: 0, height: 0 });
  const element = useRef<HTMLDivElement>(null);
  const isUsed = useRef(false); // until the first press or key, the view shows each new picture from its sources on
  const isStill = useRef(false); // during a focus that moves no view
  const picture = work.state.view?.picture ?? null;

  const move = (next: Viewport | ((before: Viewport) => Viewport)) => {
    isUsed.current = true;
    setViewport(next);
  };
  const show = (how: typeof fit) => {
    const frame = element.current?.getBoundingClientRect();
    const newest = work.state.view?.picture;
    if (frame && newest) setViewport(how(newest, frame));
  };
  useEffect(() => {
    if (picture && !isUsed.current) show(fitReadable);
  }, [picture]);
  useEffect(() => {
    const use = () => (isUsed.current = true);
    const events = ["pointerdown", "keydown"] as const;
    events.forEach((name) => addEventListener(name, use, { once: true, capture: true }));
    return () => events.forEach((name) => removeEventListener(name, use, { capture: true }));
  }, []);
  return {
    viewport,
    size,
    element,
    setSize,
    move,
    fit: () => show(fit),
    showFromSources: () => show(fitReadable),
    zoom: (by: number) => move((before) => zoom(before, { x: size.width / 2, y: size.height / 2 }, by)),
    reveal: (names: string[]) => {
      const boxes = work.state.view?.picture?.boxes.filter((box) => names.includes(box.name)) ?? [];
      const frame = element.current?.getBoundingClientRect();
      if (frame && boxes.length && !isStill.current) move((before) => reveal(before, boxes, frame));
    },
    /** Focuses a node, or the picture if there is no such node. A quiet focus moves no view. */
    focus: (name: string, isQuiet = false) => {
      isStill.current = isQuiet;
      (element.current?.querySelector<HTMLElement>(`[data-body="${CSS.escape(name)}"]`) ?? element.current)?.focus({ preventScroll: isQuiet });
      isStill.current = false;
    },
  };
}
