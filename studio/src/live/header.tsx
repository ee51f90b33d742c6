// The verdict of the flow in one sentence, and its main figures.

import { useState } from "preact/hooks";
import type { Machine } from "./frame";
import type { Link, State } from "./stream";
import { bytesOf, clockOf, rateOf, timeOf } from "../words";

export function Header(props: { state: State }) {
  const { frame, link } = props.state;
  return (
    <header>
      <h1>{frame?.name ?? props.state.picture?.name ?? "modelflow"}</h1>
      <p class={`link ${link.is}`} role="status" data-link={link.is}>
        {describeLink(link)}
      </p>
      {link.is === "live" && frame && <span class="quiet"> for {timeOf(frame.seconds)}</span>}
      {frame && (
        <>
          <div class="sentences">
          <p class={`verdict ${frame.verdict.level}`} role="status" data-verdict={frame.verdict.node}>
            {frame.verdict.text}
            {frame.verdict.change && <Chip key={frame.verdict.change} text={frame.verdict.change} />}
          </p>
          <p class="runner-up">{frame.verdict.runner_up ? `perhaps: ${frame.verdict.runner_up}` : <Hint state={props.state} />}</p>
          </div>
          <dl class="figures">
            <Figure name={frame.unit} value={rateOf(frame.rate)} id="rate" />
            {frame.in_flight !== null && <Figure name="requests in flight" value={frame.in_flight.toLocaleString("en")} id="in-flight" />}
            <Figure name="rows inside" value={frame.inside.toLocaleString("en")} id="inside" />
            {frame.passage !== null && <Figure name="source to end, about" value={timeOf(frame.passage)} id="passage" />}
            {frame.request !== null && <Figure name="request, mean" value={timeOf(frame.request)} id="request" />}
            {frame.latency &&
              (["p50", "p95", "p99"] as const).map((name) => (
                <Figure name={frame.request === null ? name : `graph ${name}`} value={timeOf(frame.latency![name])} id={name} />
              ))}
            {Object.entries(frame.outcomes).map(([name, count]) => (
              <Figure name={name} value={count.toLocaleString("en")} id={`outcome-${name}`} />
            ))}
            {frame.machine.memory !== undefined && <Figure name="memory" value={bytesOf(frame.machine.memory)} id="memory" />}
            {frame.machine.cpu !== undefined && <Figure name={coresOf(frame.machine)} value={frame.machine.cpu.toFixed(2)} id="cpu" />}
            {frame.machine.gpu_share !== undefined && <Figure name={`GPU, of ${frame.machine.gpus}`} value={frame.machine.gpu_share.toFixed(2)} id="gpu" />}
            {frame.machine.gpu_bytes !== undefined && <Figure name="GPU memory" value={bytesOf(frame.machine.gpu_bytes)} id="gpu-memory" />}
          </dl>
        </>
      )}
    </header>
  );
}

/** A text that a press copies. */
function Chip(props: { text: string }) {
  const [state, setState] = useState("");
  const copy = () =>
    navigator.clipboard.writeText(props.text).then(
      () => setState("copied"),
      () => setState("not copied: select the text"),
    );
  return (
    <>
      <button type="button" class="chip" title="copy" onClick={() => void copy()}>
        <code>{props.text}</code>
      </button>
      <span class="quiet">{state}</span>
    </>
  );
}

function describeLink(link: Link): string {
  switch (link.is) {
    case "connecting":
      return "connecting";
    case "live":
      return "live";
    case "locked":
      return link.reason || "enter the server's API key to see its figures";
    case "ended":
      return "the flow has ended; these are its last figures";
    case "lost":
      return `disconnected since ${clockOf(link.since)}: ${link.reason}; reconnecting`;
  }
}

/** Tells how the first rows come, as long as there are none. */
function Hint(props: { state: State }) {
  const { frame, picture, models } = props.state;
  if (!frame || frame.nodes.some((node) => node.rows > 0)) return null;
  if (models.served.length) {
    return (
      <>
        No rows yet. Send a request to the model; <a href="../docs">the endpoints</a> show how.
      </>
    );
  }
  const inputs = picture?.boxes.filter((box) => box.kind === "port" && picture.wires.some((wire) => wire.source === box.name)) ?? [];
  if (!inputs.length) return <>No rows yet. The sources of the graph give the first.</>;
  return <>No rows yet. The program that runs the flow sends them to {inputs.map((box) => box.name).join(", ")}.</>;
}

function coresOf(machine: Machine): string {
  return machine.processors ? `CPU, of ${machine.processors} cores` : "CPU, cores";
}

function Figure(props: { name: string; value: string; id: string }) {
  return (
    <div data-figure={props.id}>
      <dt>{props.name}</dt>
      <dd>{props.value}</dd>
    </div>
  );
}
