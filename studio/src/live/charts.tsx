// The main figures over time: charts with one axis and one cursor.

import { useState } from "preact/hooks";
import { percent, roundUp } from "./axis";
import type { Change, Frame } from "./frame";
import type { Column, Series } from "./series";
import { bytesOf, clockOf, rateOf, timeOf } from "../words";

// Seconds of the axis, its name, and the seconds between two ticks.
const SPANS = [
  [60, "1 min", 15],
  [300, "5 min", 60],
  [1800, "30 min", 300],
] as const;
const BINS = 240;
const HIGH = 100;
// Seconds without a value that interrupt a line. The server's samples are 10 s apart.
const GAP = 25;
const LISTED = 5;
const STEPS = 60;

interface Row {
  name: (frame: Frame) => string;
  columns: Column[];
  text: (value: number) => string;
  empty?: string; // what an empty chart says
  isExpected?: (frame: Frame) => boolean; // else the row is left out as long as it has no values
}

const ROWS: Row[] = [
  { name: (frame) => frame.unit, columns: ["rate"], text: rateOf },
  { name: () => "latency p50, p99", columns: ["p50", "p99"], text: timeOf, empty: "no request has ended in this time; open a node to see its waits", isExpected: (frame) => frame.in_flight !== null },
  { name: () => "rows inside", columns: ["inside"], text: (value) => Math.round(value).toLocaleString("en") },
  { name: () => "errors/s", columns: ["errors"], text: rateOf },
  { name: () => "CPU, cores", columns: ["cpu"], text: (value) => value.toFixed(2), isExpected: hasMachine },
  { name: () => "memory", columns: ["memory"], text: bytesOf, isExpected: hasMachine },
];

export function Charts(props: { series: Series; frame: Frame; changes: Change[] }) {
  const { series, frame } = props;
  const [chosen, setChosen] = useState(1);
  const [paused, setPaused] = useState<number | null>(null);
  const [cursor, setCursor] = useState<number | null>(null);
  const [span, , tick] = SPANS[chosen]!;
  const step = span / BINS;
  const to = Math.ceil((paused ?? series.last) / step) * step;
  const from = to - span;
  const time = cursor === null ? (paused ?? series.last) : from + cursor * span;
  const rows = ROWS.map((row) => ({ ...row, lines: row.columns.map((column) => series.means(column, from, to, BINS)) })).filter(
    (row) => !row.isExpected || row.isExpected(frame) || row.lines.some((line) => line.some((value) => !Number.isNaN(value))),
  );
  const changes = props.changes.filter(([at]) => at >= from && at <= to);
  return (
    <section class="over-time" aria-label="Over time">
      <div class="bar">
        <h2>Over time</h2>
        {SPANS.map(([, name], place) => (
          <button type="button" aria-pressed={place === chosen} onClick={() => setChosen(place)}>
            {name}
          </button>
        ))}
        <button type="button" onClick={() => setPaused(paused === null ? series.last : null)}>
          {paused === null ? "Pause" : "Go on"}
        </button>
        {paused !== null && <span class="quiet">paused at {clockOf(series.day(paused))}</span>}
      </div>
      <div class="charts">
        {rows.map((row, place) => (
          <>
            <div class="label" style={{ "--row": place + 1 }} data-chart={row.columns[0]}>
              <span class="quiet">{row.name(frame)}</span>
              <strong>{wordsOf(row, row.columns.map((column) => series.at(column, time)))}</strong>
            </div>
            <Plot row={row} place={place} span={span} />
          </>
        ))}
        <Cursor series={series} from={from} span={span} cursor={cursor} rows={rows.length} changes={changes} move={setCursor} />
        <Axis series={series} from={from} span={span} tick={tick} cursor={cursor} row={rows.length + 1} />
      </div>
      {props.changes.length > 0 && (
        <ol class="changes" aria-label="Changes">
          {props.changes
            .slice(-LISTED)
            .reverse()
            .map(([at, text]) => (
              <li data-change={text}>
                <span class="quiet">{clockOf(series.day(at))}</span> {text}
              </li>
            ))}
        </ol>
      )}
    </section>
  );
}

function hasMachine(frame: Frame): boolean {
  return frame.machine.memory !== undefined;
}

function wordsOf(row: Row, values: number[]): string {
  return values.filter((value) => !Number.isNaN(value)).map(row.text).join(" · ") || "–";
}

function Plot(props: { row: Row & { lines: Float64Array[] }; place: number; span: number }) {
  const { row } = props;
  const values = row.lines.flatMap((line) => [...line].filter((value) => !Number.isNaN(value)));
  const top = roundUp(Math.max(...values, 0));
  return (
    <div class="plot" style={{ "--row": props.place + 1 }}>
      <svg viewBox={`0 0 ${BINS} ${HIGH}`} preserveAspectRatio="none" aria-hidden="true">
        {row.lines.map((line, place) => (
          <path class={place ? "line second" : "line"} d={pathOf(line, top, props.span)} />
        ))}
      </svg>
      {values.length > 0 ? <span class="top">{row.text(top)}</span> : row.empty && <span class="top">{row.empty}</span>}
    </div>
  );
}

/** Returns the path of a line, with gaps where values are missing for long. */
function pathOf(line: Float64Array, top: number, span: number): string {
  let path = "";
  let last = Number.NEGATIVE_INFINITY;
  const widest = Math.max(2, (GAP / span) * BINS);
  line.forEach((value, bin) => {
    if (Number.isNaN(value)) return;
    path += `${bin - last > widest ? "M" : "L"}${bin + 0.5} ${(HIGH - (value / top) * HIGH).toFixed(1)}`;
    last = bin;
  });
  return path;
}

interface CursorProps {
  series: Series;
  from: number;
  span: number;
  cursor: number | null;
  rows: number;
  changes: Change[];
  move: (cursor: number | null) => void;
}

/** The line at the chosen moment, over all charts, and the lines of changes. */
function Cursor(props: CursorProps) {
  const { series, from, span, cursor, move } = props;
  const point = (event: PointerEvent & { currentTarget: HTMLElement }) => {
    const box = event.currentTarget.getBoundingClientRect();
    move(Math.min(1, Math.max(0, (event.clientX - box.left) / box.width)));
  };
  const press = (event: KeyboardEvent) => {
    const way = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (way) move(Math.min(1, Math.max(0, (cursor ?? 1) + way / STEPS)));
    else if (event.key === "Escape" && cursor !== null) {
      event.stopPropagation();
      move(null);
    } else return;
    event.preventDefault();
  };
  const at = from + (cursor ?? 1) * span;
  return (
    <div
      class="cursor"
      style={{ "--rows": props.rows }}
      tabindex={0}
      role="slider"
      aria-label="Moment"
      aria-valuemin={-span}
      aria-valuemax={0}
      aria-valuenow={Math.round(((cursor ?? 1) - 1) * span)}
      aria-valuetext={cursor === null ? "now" : clockOf(series.day(at))}
      onPointerMove={point}
      onPointerDown={point}
      onPointerLeave={() => move(null)}
      onKeyDown={press}
    >
      {props.changes.map(([time, text]) => (
        <span class="mark" style={{ left: percent((time - from) / span) }} title={`${clockOf(series.day(time))} ${text}`} />
      ))}
      {cursor !== null && <span class="line" style={{ left: percent(cursor) }} />}
    </div>
  );
}

function Axis(props: { series: Series; from: number; span: number; tick: number; cursor: number | null; row: number }) {
  const { series, from, span, tick, cursor } = props;
  const start = series.day(from).getTime() / 1e3;
  const places = [];
  for (let time = Math.ceil(start / tick) * tick; time < start + span; time += tick) places.push((time - start) / span);
  const text = (place: number, letters: number) => clockOf(series.day(from + place * span + 0.01)).slice(0, letters);
  return (
    <div class="axis" style={{ "--row": props.row }} aria-hidden="true">
      {places
        .filter((place) => place > 0.04 && place < 0.96 && (cursor === null || Math.abs(place - cursor) > 0.15))
        .map((place) => (
          <span style={{ left: percent(place) }}>{text(place, tick < 60 ? 8 : 5)}</span>
        ))}
      {cursor !== null && (
        <strong style={{ left: percent(Math.min(0.96, Math.max(0.04, cursor))) }}>{text(cursor, 8)}</strong>
      )}
    </div>
  );
}
