// The graph with the current figures of each node.

import type { Box, Drawing, Frame, NodeFrame, Wire } from "./frame";
import { rateOf, shareOf } from "../words";

const CELLS = 16;
const PAD = 12;
const FULL = 0.9;
// The smallest scale of a graph. A graph that still does not fit scrolls.
const SHRUNK = 0.55;

interface GraphProps {
  name: string;
  drawing: Drawing;
  frame: Frame | null;
  opened: string;
  open: (node: string) => void;
}

export function Graph(props: GraphProps) {
  const { drawing, frame, opened, open } = props;
  const nodes = new Map(frame?.nodes.map((node) => [node.node, node]));
  const limiting = frame?.verdict.level === "finding" ? frame.verdict.node : "";
  const fastest = fastestOf(frame);
  return (
    <svg
      class="graph"
      viewBox={`0 0 ${drawing.width} ${drawing.height}`}
      style={{ width: `clamp(${SHRUNK * drawing.width}px, 100%, ${drawing.width}px)`, height: "auto" }}
      role="group"
      aria-label={`Graph ${props.name}`}
    >
      <Arrow />
      {drawing.wires.map((wire) => (
        <Line wire={wire} nodes={nodes} fastest={fastest} />
      ))}
      {drawing.boxes.map((box) => (
        <Card box={box} node={nodes.get(box.name)} isLimiting={box.name === limiting} isOpen={box.name === opened} open={open} />
      ))}
    </svg>
  );
}

/** The arrow at the end of wires. A gap leaves room for the dot of a port. */
export function Arrow(props: { gap?: number }) {
  return (
    <defs>
      <marker id="arrow" viewBox="0 0 8 8" refX={8 + (props.gap ?? 0)} refY={4} markerWidth={8} markerHeight={8} markerUnits="userSpaceOnUse" orient="auto">
        <path class="arrow" d="M0 0 8 4 0 8z" />
      </marker>
    </defs>
  );
}

/** The sign of a node's kind. */
export function Sign(props: { box: { mark: string; sign: string; width: number } }) {
  const { mark, sign, width } = props.box;
  if (!sign) return null;
  return (
    <g class="sign" transform={`translate(${width - PAD - 12} 28)`}>
      <path d={sign} />
      <title>{mark}</title>
    </g>
  );
}

/** Returns the style of a line: its width follows the rate, and `isFull` marks a nearly full queue. */
export function lookOf(wire: { source: string; target: string }, nodes: Map<string, NodeFrame>, fastest: number) {
  const target = nodes.get(wire.target);
  const rate = (target ?? nodes.get(wire.source))?.rate ?? 0;
  const isFull = target !== undefined && target.capacity > 0 && target.queue > FULL * target.capacity;
  return { isFull, width: 1.2 + 4 * Math.sqrt(rate / fastest) };
}

export function fastestOf(frame: Frame | null): number {
  return Math.max(1e-9, ...(frame?.nodes.map((node) => node.rate) ?? []));
}

function Line(props: { wire: Wire; nodes: Map<string, NodeFrame>; fastest: number }) {
  const { wire } = props;
  const look = lookOf(wire, props.nodes, props.fastest);
  return (
    <path
      class={look.isFull ? "wire full" : "wire"}
      d={wire.path}
      stroke-width={look.width}
      data-wire={`${wire.source} ${wire.target}`}
    />
  );
}

function Card(props: { box: Box; node: NodeFrame | undefined; isLimiting: boolean; isOpen: boolean; open: (node: string) => void }) {
  const { box, node, isLimiting, isOpen, open } = props;
  const press = (event: KeyboardEvent) => {
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    open(box.name);
  };
  const button = node ? { role: "button" as const, "aria-expanded": isOpen, onClick: () => open(box.name), onKeyDown: press } : { role: "img" as const };
  const kind = isLimiting ? `node ${box.kind} limiting` : `node ${box.kind}`;
  return (
    <g
      class={kind}
      transform={`translate(${box.x} ${box.y})`}
      data-node={box.name}
      tabindex={0}
      {...button}
      aria-label={describeNode(box, node, isLimiting)}
    >
      <rect class="card" width={box.width} height={box.height} rx={node ? 8 : box.height / 2} />
      {node ? <Figures box={box} node={node} /> : <Plain box={box} />}
      <Sign box={box} />
    </g>
  );
}

function Plain(props: { box: Box }) {
  const { name, width, height } = props.box;
  return (
    <text class="name" x={width / 2} y={height / 2 + 4} text-anchor="middle">
      {name}
    </text>
  );
}

/** Returns the lines of text in a card. */
export function figureWords(box: { kind: string }, node: NodeFrame): [string, string, string] {
  const threads = node.threads > 1 ? ` × ${node.threads}` : "";
  const unit = node.unit === node.node ? box.kind : node.unit;
  return [node.node, `${unit}${threads}`, `${rateOf(node.rate)} rows/s · ${node.batch.toFixed(1)} per call`];
}

export function Figures(props: { box: { kind: string; width: number }; node: NodeFrame }) {
  const { box, node } = props;
  const wide = box.width - 2 * PAD;
  return (
    <>
      {figureWords(box, node).map((text, place) => (
        <>
          <text class={["name", "quiet", "rate"][place]} x={PAD} y={[22, 38, 57][place]}>
            {text}
          </text>{" "}
        </>
      ))}
      <Bar node={node} wide={wide} />
      <Cells node={node} wide={wide} />
      {node.errors > 0 && (
        <text class="bad" x={box.width - PAD} y={22} text-anchor="end">
          {node.errors} failed
        </text>
      )}
    </>
  );
}

function Bar(props: { node: NodeFrame; wide: number }) {
  const { node, wide } = props;
  let x = PAD;
  const parts = (["busy", "blocked", "order", "starved"] as const).map((name) => {
    const width = wide * Math.min(1, node[name]);
    const part = <rect class={name} x={x} y={66} width={width} height={8} />;
    x += width;
    return part;
  });
  return (
    <>
      <rect class="none" x={PAD} y={66} width={wide} height={8} rx={2} />
      {parts}
    </>
  );
}

function Cells(props: { node: NodeFrame; wide: number }) {
  const { queue, capacity } = props.node;
  if (capacity <= 0) return null;
  const filled = Math.min(CELLS, Math.ceil((queue / capacity) * CELLS));
  const step = props.wide / CELLS;
  return (
    <>
      {Array.from({ length: CELLS }, (_, place) => (
        <rect
          class={place < filled ? (queue > FULL * capacity ? "cell full" : "cell taken") : "cell"}
          x={PAD + place * step}
          y={82}
          width={step - 2}
          height={9}
          rx={1.5}
        />
      ))}
    </>
  );
}

function describeNode(box: Box, node: NodeFrame | undefined, isLimiting: boolean): string {
  if (!node) return `${box.name}: ${box.lines[1] ?? "port"}`;
  const limits = isLimiting ? ", limits the flow" : "";
  const failed = node.errors ? ` ${node.errors} failed` : "";
  const text = `${figureWords(box, node).join(" ")}${failed}`; // as in the card, for voice control
  return `${text}${limits}, busy ${shareOf(node.busy)}, queue ${node.queue} of ${node.capacity} rows`;
}
