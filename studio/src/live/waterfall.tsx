// A recorded request as a waterfall of its calls and waits. All requests share one scale of time.

import type { ComponentChildren } from "preact";
import { percent, roundUp } from "./axis";
import { timeOf } from "../words";

export interface Part {
  node: string;
  start: number;
  end: number;
  rows: number;
  batch: number;
  error: string;
}

export interface Followed {
  session: string;
  seconds: number;
  over: boolean;
  left_out: number;
  parts: Part[];
}

// The number of colours of nodes in style.css. The number in front of a name is unambiguous.
const COLOURS = 6;
const MOST_TICKS = 5;

export function Waterfalls(props: { requests: Followed[]; order: string[] }) {
  const { requests, order } = props;
  const longest = Math.max(1e-9, ...requests.map((request) => request.seconds));
  const tick = roundUp(longest / MOST_TICKS);
  const ticks = Array.from({ length: Math.ceil(longest / tick) }, (_, place) => place * tick);
  const nodes = order.filter((name) => requests.some(({ parts }) => parts.some((part) => part.node === name)));
  return (
    <>
      <h2>Requests, slowest first</h2>
      <ul class="legend" aria-label="Nodes of the requests">
        {nodes.map((name) => (
          <li key={name}>
            <Number place={order.indexOf(name)} /> {name}
          </li>
        ))}
        <li>
          <span class="swatch failing" /> failed
        </li>
        <li>
          <span class="swatch thin" /> waiting for a call
        </li>
      </ul>
      <div class="lanes">
        <span />
        <span class="scale" aria-hidden="true">
          {ticks.map((time) => (
            <span style={{ left: percent(time / longest) }}>{time ? timeOf(time) : "0"}</span>
          ))}
        </span>
        <span />
      </div>
      <ol class="requests">
        {requests.map((request) => (
          <li key={request.session} data-request={request.session}>
            <Waterfall request={request} longest={longest} order={order} />
          </li>
        ))}
      </ol>
    </>
  );
}

function Waterfall(props: { request: Followed; longest: number; order: string[] }) {
  const { request, longest, order } = props;
  const { parts } = request;
  const place = (part: Part) => order.indexOf(part.node);
  return (
    <details>
      <summary>
        <Lane
          name={
            <>
              request {request.session}
              {parts.some((part) => part.error) && <span class="bad"> failed</span>}
            </>
          }
          time={`${timeOf(request.seconds)}${request.over ? "" : " so far"}`}
        >
          {parts.map((part, one) => (
            <Call key={one} part={part} place={place(part)} longest={longest} />
          ))}
        </Lane>
      </summary>
      {!parts.length && <p class="quiet">No calls yet.</p>}
      <div role="img" aria-label={parts.map(describePart).join("; ")}>
        {parts.map((part, one) => {
          const before = Math.max(0, ...parts.slice(0, one).map((earlier) => earlier.end));
          return (
            <div key={one} data-part={part.node} title={describePart(part)}>
              <Lane
                name={
                  <>
                    <Number place={place(part)} /> {part.node}
                    {part.batch > part.rows && <span class="quiet"> in a batch of {part.batch}</span>}
                  </>
                }
                time={timeOf(part.end - part.start)}
              >
                {part.start > before && <span class="wait" style={span(before, part.start, longest)} />}
                <Call part={part} place={place(part)} longest={longest} />
              </Lane>
            </div>
          );
        })}
      </div>
      {request.left_out > 0 && (
        <p class="quiet">
          {request.left_out} more {request.left_out === 1 ? "call is" : "calls are"} in the trace
        </p>
      )}
    </details>
  );
}

function Lane(props: { name: ComponentChildren; time: string; children: ComponentChildren }) {
  return (
    <span class="lanes">
      <span class="who">{props.name}</span>
      <span class="lane">{props.children}</span>
      <span class="time">{props.time}</span>
    </span>
  );
}

function Call(props: { part: Part; place: number; longest: number }) {
  const { part, place, longest } = props;
  return (
    <span class={`call ${colourOf(place)} ${part.error ? "failing" : ""}`} style={span(part.start, part.end, longest)}>
      <span aria-hidden="true">{place + 1}</span>
    </span>
  );
}

function Number(props: { place: number }) {
  return <span class={`number ${colourOf(props.place)}`}>{props.place + 1}</span>;
}

function colourOf(place: number): string {
  return `hue-${(place % COLOURS) + 1}`;
}

function span(start: number, end: number, longest: number) {
  return { left: percent(start / longest), width: percent((end - start) / longest) };
}

function describePart(part: Part): string {
  const error = part.error ? `, failed: ${part.error}` : "";
  return `${part.node} from ${timeOf(part.start)} for ${timeOf(part.end - part.start)}, ${part.rows} of ${part.batch} rows in the batch${error}`;
}
