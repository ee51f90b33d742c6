// The verdict of the flow in one sentence, and its main figures.

import type { Frame } from "./frame";
import type { Link, State } from "./stream";
import { clockOf, rateOf, timeOf } from "../words";

const WIDE = 160;
const HIGH = 34;

export function Header(props: { state: State }) {
  const { frame, link, history } = props.state;
  return (
    <header>
      <h1>{frame?.name ?? props.state.picture?.name ?? "modelflow"}</h1>
      <p class={`link ${link.is}`} role="status" data-link={link.is}>
        {said(link, frame)}
      </p>
      {frame && (
        <>
          <p class={`verdict ${frame.verdict.level}`} role="status" data-verdict={frame.verdict.node}>
            {frame.verdict.text}
            {frame.verdict.change && <code>{frame.verdict.change}</code>}
          </p>
          {frame.verdict.runner_up && <p class="runner-up">perhaps: {frame.verdict.runner_up}</p>}
          <dl class="figures">
            <Figure name={frame.unit} value={rateOf(frame.rate)} id="rate">
              <Sparkline values={history} />
            </Figure>
            <Figure name="in flight" value={String(frame.in_flight)} id="in-flight" />
            {frame.request !== null && <Figure name="request, mean" value={timeOf(frame.request)} id="request" />}
            {frame.latency &&
              (["p50", "p95", "p99"] as const).map((name) => (
                <Figure name={frame.request === null ? name : `graph ${name}`} value={timeOf(frame.latency![name])} id={name} />
              ))}
            {Object.entries(frame.outcomes).map(([name, count]) => (
              <Figure name={name} value={count.toLocaleString("en")} id={`outcome-${name}`} />
            ))}
          </dl>
        </>
      )}
    </header>
  );
}

function said(link: Link, frame: Frame | null): string {
  switch (link.is) {
    case "connecting":
      return "connecting";
    case "live":
      return `live, running for ${timeOf(frame?.seconds ?? 0)}`;
    case "locked":
      return link.reason || "enter the server's API key to see its figures";
    case "ended":
      return "the flow has ended; these are its last figures";
    case "lost":
      return `disconnected since ${clockOf(link.since)}: ${link.reason}; reconnecting`;
  }
}

function Figure(props: { name: string; value: string; id: string; children?: preact.ComponentChildren }) {
  return (
    <div data-figure={props.id}>
      <dt>{props.name}</dt>
      <dd>
        {props.value}
        {props.children}
      </dd>
    </div>
  );
}

function Sparkline(props: { values: number[] }) {
  const { values } = props;
  const top = Math.max(1e-9, ...values);
  const step = WIDE / 119;
  const begin = WIDE - (values.length - 1) * step;
  const points = values.map((value, place) => {
    const x = begin + place * step;
    return `${x.toFixed(1)},${(HIGH - 2 - (value / top) * (HIGH - 4)).toFixed(1)}`;
  });
  return (
    <svg class="sparkline" width={WIDE} height={HIGH} role="img" aria-label={`Rate in the last minute, maximum ${rateOf(top)}`}>
      <polyline points={points.join(" ")} />
    </svg>
  );
}
