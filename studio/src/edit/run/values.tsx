// The last values of an edge, each shown in the form of its kind.

import { useEffect, useRef, useState } from "preact/hooks";
import { ask } from "../api";
import type { Point } from "../canvas/viewport";
import { edgeText } from "../panels/inspector";
import type { Run } from "./trial";
import type { Box, Wire } from "../view";

interface Value {
  kind: "text" | "bytes" | "array" | "json" | "object" | "error";
  meta: Record<string, string>;
  picture?: number;
  text?: string;
  length?: number;
  value?: unknown;
  type?: string;
  dtype?: string;
  shape?: number[];
  first?: unknown[];
  odd?: number;
  min?: number | null;
  max?: number | null;
  mean?: number | null;
  std?: number | null;
  step?: number;
}

// The values of an array up to this size are shown unfolded.
const SMALL = 16;
// A record of up to so many plain values is shown in one line.
const FEW = 4;

interface Found {
  run: number;
  count: number;
  values: Value[];
}

export function EdgePanel(props: { wire: Wire; run: Run; onSelect: (name: string) => void; onInsert: (on: Point) => void; onRemove: () => void; onLeave: () => void }) {
  const { wire, run } = props;
  return (
    <section class="inspector" aria-label={`Edge ${edgeText(wire)}`} onKeyDown={(event) => event.key === "Escape" && props.onLeave()}>
      <h2>{edgeText(wire)}</h2>
      <p class="buttons">
        <button type="button" onClick={() => props.onSelect(wire.source)}>
          Go to {wire.source}
        </button>
        <button type="button" onClick={() => props.onSelect(wire.target)}>
          Go to {wire.target}
        </button>
        <button type="button" onClick={(event) => props.onInsert({ x: event.currentTarget.getBoundingClientRect().left - 320, y: 120 })}>
          Insert a unit…
        </button>
        <button type="button" onClick={props.onRemove}>
          Remove the edge
        </button>
      </p>
      {run.trial.state === "none" ? <p class="quiet">Run the graph to see the data of this edge.</p> : <Values key={`${wire.source} ${wire.output}`} node={wire.source} output={wire.output} run={run} />}
    </section>
  );
}

/** Shows the values of an output or an input of the graph; at an output also the picture that each result is for. */
export function PortValues(props: { box: Box; wires: Wire[]; inputs: string[]; run: Run }) {
  const { box, wires, run } = props;
  const ends = wires.filter((wire) => (box.role === "output" ? wire.target : wire.source) === box.name);
  const keys = [...new Set(ends.map((wire) => JSON.stringify([wire.source, wire.output])))];
  const first = box.role === "output" ? wires.find((wire) => props.inputs.includes(wire.source)) : undefined;
  return (
    <>
      {keys.map((key) => {
        const [node, output] = JSON.parse(key) as [string, string];
        return <Values key={key} node={node} output={output} origin={first} run={run} />;
      })}
    </>
  );
}

function Values(props: { node: string; output: string; origin?: Wire | undefined; run: Run }) {
  const { origin, run } = props;
  const found = useFound(props.node, props.output, run);
  const sent = useFound(origin?.source ?? "", origin?.output ?? "", run);
  const pictureOf = (path: string | undefined) => (path ? sent?.values.find((value) => value.meta.path === path)?.picture : undefined);
  return (
    <div aria-live="polite" data-passed={found?.count ?? 0}>
      <h3>{countText(found)}</h3>
      {found?.values.map((value, place) => (
        <Shown key={place} value={value} origin={origin && value.meta.path} picture={pictureOf(value.meta.path)} />
      ))}
    </div>
  );
}

/** The last values of an output, asked for again after each change of the run. "" as node: none. */
function useFound(node: string, output: string, run: Run): Found | null {
  const [found, setFound] = useState<Found | null>(null);
  const asking = useRef({ isBusy: false, isAgain: false, isOver: false });
  const look = () => {
    if (!node) return;
    const now = asking.current;
    if (now.isBusy) {
      now.isAgain = true; // one request at a time; the next follows once this one is answered
      return;
    }
    now.isBusy = true;
    const show = (next: Found | null) => {
      now.isBusy = false;
      if (now.isOver) return;
      setFound((before) => (before && next && before.run === next.run && before.count === next.count ? before : next));
      if (now.isAgain) {
        now.isAgain = false;
        look();
      }
    };
    ask<Found>("passed", { node, output }).then(show, () => show(null)); // the editor has ended, which the page shows
  };
  useEffect(look, [node, output, run.live.frame, run.trial.state]);
  useEffect(() => () => void (asking.current.isOver = true), []);
  return found;
}

function countText(found: Found | null): string {
  if (!found?.count) return "no buffers yet";
  if (found.count === 1) return "1 buffer";
  const count = `${found.count.toLocaleString("en")} buffers`;
  return found.count > found.values.length ? `${count}; the last ${found.values.length}, newest first` : `${count}, newest first`;
}

function Shown(props: { value: Value; origin?: string | undefined; picture?: number | undefined }) {
  const { value, origin, picture } = props;
  const [size, setSize] = useState("");
  return (
    <div class="value" data-value={value.kind}>
      {origin && (
        <figure>
          {picture !== undefined && value.picture === undefined && <img src={`value/${picture}${location.search}`} alt="" />}
          <figcaption>{origin}</figcaption>
        </figure>
      )}
      {value.picture !== undefined && (
        <>
          <img src={`value/${value.picture}${location.search}`} alt={describe(value)} onLoad={(event) => setSize(`${event.currentTarget.naturalWidth} x ${event.currentTarget.naturalHeight} pixels`)} />
          {size && <p class="quiet">{size}</p>}
        </>
      )}
      <Content value={value} />
      {Object.keys(value.meta).length > 0 && (
        <details>
          <summary>meta</summary>
          <dl>
            {Object.entries(value.meta).map(([key, text]) => (
              <Entry key={key} name={key} text={text} />
            ))}
          </dl>
        </details>
      )}
    </div>
  );
}

function Content(props: { value: Value }) {
  const { value } = props;
  switch (value.kind) {
    case "error":
      return <p class="problem">{value.text}</p>;
    case "text":
      return <pre>{value.text}</pre>;
    case "bytes":
      if (value.picture !== undefined) return <p>{value.length?.toLocaleString("en")} bytes</p>;
      return (
        <p>
          {value.length?.toLocaleString("en")} bytes: <code>{value.text}</code>
        </p>
      );
    case "object":
      return (
        <p>
          {value.type}: <code>{value.text}</code>
        </p>
      );
    case "json":
      return <Tree value={value.value} />;
    case "array":
      return (
        <>
          <dl>
            <Entry name="array" text={describe(value)} />
            {(["min", "max", "mean", "std"] as const).map((name) => value[name] != null && <Entry key={name} name={name} text={short(value[name]!)} />)}
            {(value.step ?? 1) > 1 && <Entry name="sampled" text={`1 in ${value.step} values`} />}
            {!!value.odd && <Entry name="non-finite" text={String(value.odd)} />}
          </dl>
          <details open={(value.shape ?? []).reduce((size, axis) => size * axis, 1) <= SMALL}>
            <summary>first values</summary>
            <code>{value.first?.map(String).join(" ")}</code>
          </details>
        </>
      );
  }
}

function describe(value: Value): string {
  return value.dtype ? `${value.dtype} (${value.shape?.join(", ")})` : `image, ${value.length} bytes`;
}

function Entry(props: { name: string; text: string }) {
  return (
    <div>
      <dt>{props.name}</dt>
      <dd>{props.text}</dd>
    </div>
  );
}

function Tree(props: { value: unknown; name?: string }) {
  const { value, name } = props;
  const head = name === undefined ? "" : `${name}: `;
  if (value === null || typeof value !== "object") {
    return (
      <div class="leaf">
        {head}
        <code>{typeof value === "number" ? short(value) : JSON.stringify(value)}</code>
      </div>
    );
  }
  if (Array.isArray(value) && value.length > 0 && value.length <= SMALL && value.every((one) => typeof one === "number")) {
    return (
      <div class="leaf">
        {head}
        <code>[{value.map(short).join(", ")}]</code>
      </div>
    );
  }
  const items = Object.entries(value);
  if (!Array.isArray(value) && items.length > 0 && items.length <= FEW && items.every(([, one]) => one === null || typeof one !== "object")) {
    return (
      <div class="leaf">
        {head}
        <code>{items.map(([key, one]) => `${key}: ${typeof one === "number" ? short(one) : JSON.stringify(one)}`).join(", ")}</code>
      </div>
    );
  }
  return (
    <details open class="tree">
      <summary>
        {head}
        {Array.isArray(value) ? `list of ${items.length}` : `${items.length} ${items.length === 1 ? "key" : "keys"}`}
      </summary>
      {items.map(([key, one]) => (
        <Tree key={key} name={key} value={one} />
      ))}
    </details>
  );
}

function short(value: number): string {
  return Number.isInteger(value) ? String(value) : value.toPrecision(5);
}
