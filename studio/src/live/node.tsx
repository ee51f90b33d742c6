// The details of an opened node.

import { useEffect, useRef } from "preact/hooks";
import type { Details, Marks, NodeFrame, Trouble } from "./frame";
import { STATES } from "./legend";
import { Kinds } from "./troubles";
import { Bars, type Bar } from "./bars";
import { rateOf, shareOf, timeOf } from "../words";

const REASONS: Record<string, string> = {
  full: "full",
  timeout: "waited long enough",
  nothing_waiting: "no more rows",
  end_of_stream: "end of the stream",
  shared: "shared by workers",
};
const CORES: Record<string, string> = { running: "on a core", waiting: "waiting in the unit", runnable: "without a core" };
const SETTINGS: Record<string, string> = { unit: "unit", device: "device", threads: "threads", batch: "batch size", queue: "queue", feeds: "feeds" };
// Beside the graph, the panel is always in view.
const BESIDE = matchMedia("(min-width: 1100px)");
// The most bars of the histogram of calls; more share bars of a doubling each.
const MOST_BARS = 12;

interface Props {
  node: NodeFrame;
  plan: Record<string, string>;
  trouble: Trouble | undefined;
  day: (time: number) => Date;
  close: () => void;
}

export function NodePanel(props: Props) {
  const { node, plan, trouble } = props;
  const { details } = node;
  const panel = useRef<HTMLElement>(null);
  useEffect(() => panel.current?.focus({ preventScroll: BESIDE.matches }), [node.node]);
  const settings = Object.entries(SETTINGS).filter(([name]) => plan[name]);
  return (
    <aside class="panel" ref={panel} tabindex={-1} aria-label={`Node ${node.node}`} data-panel={node.node}>
      <div class="bar">
        <h2>{node.node}</h2>
        <span class="quiet">{rateOf(node.rate)} rows/s</span>
        <button type="button" onClick={props.close}>
          Close
        </button>
      </div>
      <p class="quiet">the last ten seconds</p>
      <h3>Workers, in the last two seconds</h3>
      <Bars whole={1} bars={STATES.map(([name]): Bar => [name, node[name], shareOf(node[name]), name])} />
      <h3>Calls</h3>
      <Percentiles marks={details.service} none="no call has ended" />
      <Bars bars={timesOf(details)} />
      <h3>Wait of the oldest row of a call</h3>
      <Percentiles marks={details.wait} none="no row has waited" />
      {details.batches.length > 0 && (
        <>
          <h3>Rows a call, of at most {node.batch_size}</h3>
          <Bars bars={details.batches.map(([first, last, count]): Bar => [first === last ? `${first}` : `${first} to ${Math.min(last, node.batch_size)}`, count, count.toLocaleString("en")])} />
        </>
      )}
      <Counts title="Batches, by the reason why they closed" names={REASONS} counts={details.closed} />
      {Object.keys(details.cores).length > 0 && (
        <>
          <h3>Threads in calls</h3>
          <Bars whole={1} bars={Object.entries(CORES).map(([name, text]): Bar => [text, details.cores[name] ?? 0, shareOf(details.cores[name] ?? 0)])} />
        </>
      )}
      {(details.moving > 0 || details.padding > 0 || details.cuts > 0) && (
        <>
          <h3>Effort beside the rows</h3>
          <dl class="pairs">
            {details.moving > 0 && <Pair name="copies between devices" text={`${shareOf(details.moving)} of busy`} />}
            {details.padding > 0 && <Pair name="rows that fill batches" text={details.padding.toLocaleString("en")} />}
            {details.cuts > 0 && <Pair name="cuts for another shape" text={details.cuts.toLocaleString("en")} />}
          </dl>
        </>
      )}
      <h3>Settings</h3>
      <dl class="pairs">
        {settings.map(([name, text]) => (
          <Pair key={name} name={text} text={plan[name]!} />
        ))}
      </dl>
      {trouble && (
        <>
          <h3>Errors</h3>
          <Kinds trouble={trouble} day={props.day} />
        </>
      )}
    </aside>
  );
}

function Pair(props: { name: string; text: string }) {
  return (
    <>
      <dt>{props.name}</dt>
      <dd>{props.text}</dd>
    </>
  );
}

function Counts(props: { title: string; names: Record<string, string>; counts: Record<string, number> }) {
  const counts = Object.entries(props.counts);
  if (!counts.length) return null;
  return (
    <>
      <h3>{props.title}</h3>
      <Bars bars={counts.map(([name, count]): Bar => [props.names[name] ?? name, count, count.toLocaleString("en")])} />
    </>
  );
}

function Percentiles(props: { marks: Marks | null; none: string }) {
  const { marks } = props;
  if (!marks) return <p class="quiet">{props.none}</p>;
  return (
    <dl class="marks">
      {(["p50", "p95", "p99"] as const).map((name) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{timeOf(marks[name])}</dd>
        </div>
      ))}
    </dl>
  );
}

/** Returns the durations of calls as bars, each with the time at which the bar begins. */
function timesOf(details: Details): Bar[] {
  const width = details.times.length > MOST_BARS ? 4 : 1;
  const found = new Map<number, number>();
  for (const [bucket, count] of details.times) {
    const first = Math.floor(bucket / width) * width;
    found.set(first, (found.get(first) ?? 0) + count);
  }
  return [...found].map(([bucket, count]) => [`from ${timeOf(2 ** (bucket / 4) / 1e9)}`, count, count.toLocaleString("en")]);
}
