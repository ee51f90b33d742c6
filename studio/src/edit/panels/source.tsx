// The text of the file in colours, with marks at the lines of findings.

import { useEffect, useLayoutEffect, useMemo, useRef } from "preact/hooks";
import type { Finding } from "../view";
import { splitText } from "./highlight";

/** A part of the text to show: a line, and with `length` also a selection in it. */
export interface Spot {
  line: number; // from 1
  column?: number;
  length?: number;
}

interface Props {
  text: string;
  file: string;
  findings: Finding[];
  spot: Spot | null;
  newest: () => string;
  onType: (text: string) => void;
}

const LINE = 18;

export function Source(props: Props) {
  const area = useRef<HTMLTextAreaElement>(null);
  const gutter = useRef<HTMLDivElement>(null);
  const colours = useRef<HTMLPreElement>(null);
  const shown = unix(props.text);
  const lines = shown.split("\n").length;
  const wrong = new Map(props.findings.flatMap((one) => (one.line === null ? [] : [[one.line, one.message] as const])));
  useEffect(() => {
    // The rendered text may be older than the typed text. The field keeps its own value if both are
    // equal.
    const now = unix(props.newest());
    if (area.current && area.current.value !== now) area.current.value = now;
  }, [shown]);
  useLayoutEffect(() => {
    const { spot } = props;
    if (!spot || !area.current) return;
    area.current.scrollTop = Math.max(0, (spot.line - 4) * LINE);
    if (!spot.length) return;
    const begin = shown.split("\n").slice(0, spot.line - 1).reduce((sum, line) => sum + line.length + 1, spot.column ?? 0);
    area.current.setSelectionRange(begin, begin + spot.length);
  }, [props.spot]);
  const pieces = useMemo(() => splitText(shown), [shown]);
  return (
    <div class="source">
      <div class="gutter" ref={gutter} aria-hidden="true">
        {Array.from({ length: lines }, (_, place) => (
          <div key={place} class={wrong.has(place + 1) ? "wrong" : ""} data-line={wrong.has(place + 1) ? place + 1 : undefined} title={wrong.get(place + 1)}>
            {place + 1}
          </div>
        ))}
      </div>
      <div class="text">
        <pre ref={colours} aria-hidden="true">
          {pieces.map((piece, place) => (piece.kind ? <span key={place} class={piece.kind}>{piece.text}</span> : piece.text))}
          {"\n"}
        </pre>
        <textarea
          ref={area}
          aria-label={`Text of ${props.file}`}
          spellcheck={false}
          wrap="off"
          onInput={(event) => props.onType(splice(props.newest(), event.currentTarget.value))}
          onScroll={(event) => {
            const { scrollTop, scrollLeft } = event.currentTarget;
            gutter.current!.scrollTop = scrollTop;
            colours.current!.style.transform = `translate(${-scrollLeft}px, ${-scrollTop}px)`;
          }}
        />
      </div>
    </div>
  );
}

function unix(text: string): string {
  return text.replace(/\r\n?/g, "\n");
}

/** Inserts typed text into a text with other line ends, which the field loses. All other lines keep theirs. */
export function splice(before: string, typed: string): string {
  if (!before.includes("\r")) return typed;
  const places: number[] = [];
  for (let place = 0; place < before.length; place++) {
    places.push(place);
    if (before[place] === "\r" && before[place + 1] === "\n") place++;
  }
  places.push(before.length);
  const shown = unix(before);
  const most = Math.min(shown.length, typed.length);
  let head = 0;
  while (head < most && shown[head] === typed[head]) head++;
  let tail = 0;
  while (tail < most - head && shown.at(-1 - tail) === typed.at(-1 - tail)) tail++;
  const middle = typed.slice(head, typed.length - tail).replace(/\n/g, before.includes("\r\n") ? "\r\n" : "\r");
  return before.slice(0, places[head]) + middle + before.slice(places[shown.length - tail]);
}
