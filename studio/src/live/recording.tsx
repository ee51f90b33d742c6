// Starts and stops a recording, downloads its trace, and shows recorded requests as waterfalls.

import { useEffect, useState } from "preact/hooks";
import type { State } from "./stream";
import { timeOf } from "../words";

interface Part {
  node: string;
  start: number;
  end: number;
  rows: number;
  batch: number;
  error: string;
}

interface Followed {
  session: string;
  seconds: number;
  over: boolean;
  left_out: number;
  parts: Part[];
}

const WIDE = 620;
const BAR = 16;

export function Recording(props: { state: State }) {
  const { recording, link } = props.state;
  const [followed, setFollowed] = useState<Followed[]>([]);
  const [problem, setProblem] = useState("");
  useEffect(() => {
    if (!recording?.has) return;
    let isWanted = true;
    fetch(`requests${location.search}`)
      .then((answer) => (answer.ok ? answer.json() : []))
      .then((found: Followed[]) => isWanted && setFollowed(found))
      .catch(() => undefined); // the flow has ended, which the header shows
    return () => {
      isWanted = false;
    };
  }, [recording?.version, recording?.has]);
  if (!recording) return null;
  const press = async () => {
    try {
      const answer = await fetch(`${recording.on ? "halt" : "record"}${location.search}`, { method: "POST" });
      setProblem(answer.ok ? "" : `the server answered ${answer.status}`);
    } catch {
      setProblem("the server does not answer");
    }
  };
  return (
    <section aria-label="Recording">
      <p class="recording" data-recording={recording.on ? "on" : recording.has ? "ended" : "none"}>
        {link.is !== "ended" && (
          <button type="button" disabled={link.is !== "live"} onClick={() => void press()}>
            {recording.on ? "Stop recording" : "Record"}
          </button>
        )}
        {link.is === "ended" && recording.has && <span class="quiet">the flow has ended, and its trace is lost; its requests are below</span>}
        {recording.on && link.is !== "ended" && <span role="status">{recording.slices.toLocaleString("en")} calls and waits; the recording stops after five minutes</span>}
        {recording.has && !recording.on && link.is !== "ended" && (
          <a href={`trace.json.gz${location.search}`} download="trace.json.gz">
            Download the trace for ui.perfetto.dev ({recording.slices.toLocaleString("en")} calls and waits)
          </a>
        )}
        {(problem || recording.problem) && (
          <span class="bad" role="alert">
            {problem || recording.problem}
          </span>
        )}
      </p>
      {recording.has && !followed.length && <p class="quiet">No recorded request has ended yet. Every 100th request is recorded, and the two slowest of each second.</p>}
      {followed.length > 0 && (
        <>
          <h2>Requests, slowest first</h2>
          <p class="quiet">
            <span class="swatch busy" /> in a call <span class="swatch thin" /> waiting for a call
          </p>
          <ol class="requests">
            {followed.map((request) => (
              <li key={request.session} data-request={request.session}>
                <Waterfall request={request} />
              </li>
            ))}
          </ol>
        </>
      )}
    </section>
  );
}

function Waterfall(props: { request: Followed }) {
  const { request } = props;
  const { parts } = request;
  const scale = WIDE / Math.max(1e-9, request.seconds);
  return (
    <details>
      <summary>
        request {request.session}: {timeOf(request.seconds)}
        {!request.over && " so far"}
        {parts.some((part) => part.error) && <span class="bad"> failed</span>}
        <Line parts={parts} scale={scale} />
      </summary>
      {!parts.length && <p class="quiet">No calls yet.</p>}
      <svg class="waterfall" width={WIDE + 260} height={parts.length * (BAR + 4)} role="img" aria-label={parts.map(spoken).join("; ")}>
        {parts.map((part, place) => {
          const before = Math.max(0, ...parts.slice(0, place).map((one) => one.end));
          const y = place * (BAR + 4);
          return (
            <g key={place} data-part={part.node}>
              {part.start > before && <rect class="wait" x={before * scale} y={y + BAR / 2 - 1} width={(part.start - before) * scale} height={2} />}
              <rect class={part.error ? "call failed" : "call"} x={part.start * scale} y={y} width={Math.max(1.5, (part.end - part.start) * scale)} height={BAR} rx={2} />
              <text {...labelAt(part.start * scale, part.end * scale)} y={y + BAR - 4}>
                {part.node} {timeOf(part.end - part.start)}
                {part.batch > part.rows && `, in a batch of ${part.batch} rows`}
              </text>
              <title>{spoken(part)}</title>
            </g>
          );
        })}
      </svg>
      {request.left_out > 0 && <p class="quiet">{request.left_out} more {request.left_out === 1 ? "call is" : "calls are"} in the trace</p>}
    </details>
  );
}

/** Returns the place of a label: right of the bar, or left of it if that side has more room. */
function labelAt(start: number, end: number) {
  return start > WIDE - end + 260 ? { x: start - 6, "text-anchor": "end" as const } : { x: Math.max(end, start + 1.5) + 6 };
}

/** The calls of a request in one line, shown while the request is folded. */
function Line(props: { parts: Part[]; scale: number }) {
  return (
    <svg class="waterfall" width={WIDE} height={8} aria-hidden="true">
      <rect class="none" width={WIDE} height={8} rx={2} />
      {props.parts.map((part, place) => (
        <rect key={place} class={part.error ? "call failed" : "call"} x={part.start * props.scale} width={Math.max(1.5, (part.end - part.start) * props.scale)} height={8} />
      ))}
    </svg>
  );
}

function spoken(part: Part): string {
  const error = part.error ? `, failed: ${part.error}` : "";
  return `${part.node} from ${timeOf(part.start)} for ${timeOf(part.end - part.start)}, ${part.rows} of ${part.batch} rows in the batch${error}`;
}
