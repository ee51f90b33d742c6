// A node with its ports.

import type { NodeFrame } from "../../live/frame";
import { Figures, figureWords, Sign } from "../../live/graph";
import type { Box, Finding, Port } from "../view";
import { memo } from "./cache";

const PAD = 12;
// The most letters that fit into a card, and above it.
const [MOST_LETTERS, MOST_COMMENT] = [27, 34];
const MOST_LINES = 5;

interface Props {
  box: Box;
  isSelected: boolean;
  isConnecting: boolean;
  findings: Finding[];
  figures: NodeFrame | undefined;
  isLimiting: boolean;
  onFocus: () => void;
}

export const Node = memo(
  function Node(props: Props) {
    const { box, isSelected, findings, figures } = props;
    const marks = [box.kind, isSelected && "selected", findings.length && "bad", props.isConnecting && "connecting", props.isLimiting && "limiting"];
    return (
      <g class={`node ${marks.filter(Boolean).join(" ")}`} transform={`translate(${box.x} ${box.y})`} data-node={box.name}>
        <g
          class="body"
          role="button"
          tabindex={0}
          aria-pressed={isSelected}
          aria-label={describe(box, findings, figures)}
          data-body={box.name}
          onFocus={props.onFocus}
        >
          <rect class="card" width={box.width} height={box.height} rx={box.kind === "port" ? box.height / 2 : 8} />
          {figures ? (
            <Figures box={box} node={figures} />
          ) : (
            words(box).map((text, place) => (
              <>
                <text class={place ? "quiet" : "name"} {...at(box, place)}>
                  {text}
                </text>{" "}
              </>
            ))
          )}
          <Sign box={box} />
        </g>
        {box.attributes.comment && (
          <text class="comment" x={2} y={-6}>
            {cut(box.attributes.comment, MOST_COMMENT)}
            <title>{box.attributes.comment}</title>
          </text>
        )}
        {box.inputs.map((port) => (
          <Dot key={port.name} port={port} x={0} side="input" />
        ))}
        {box.outputs.map((port) => (
          <Dot key={port.name} port={port} x={box.width} side="output" />
        ))}
      </g>
    );
  },
  (one, other) =>
    one.box === other.box &&
    one.isSelected === other.isSelected &&
    one.isConnecting === other.isConnecting &&
    one.figures === other.figures &&
    one.isLimiting === other.isLimiting &&
    one.findings.length === other.findings.length &&
    one.findings.every((finding, place) => finding === other.findings[place]),
);

function Dot(props: { port: Port; x: number; side: "input" | "output" }) {
  const { port, x, side } = props;
  const about = [port.name, port.type, port.optional && "optional", port.about].filter(Boolean).join(": ");
  const mark = { [`data-${side}`]: port.name };
  return (
    <g class={`port${port.used ? " used" : ""}${port.wrong ? " missing" : ""}`} {...mark} transform={`translate(${x} ${port.y})`}>
      <circle class="reach" r={11} />
      <circle class="dot" r={5} />
      <text class="port-name" x={side === "input" ? -10 : 10} y={-5} text-anchor={side === "input" ? "end" : "start"}>
        {port.name}
      </text>
      <title>{about}</title>
    </g>
  );
}

/** Returns the lines of text in a box: its name, unit, settings, and the options that the file sets. */
export function words(box: Box): string[] {
  if (box.kind === "port") return [box.name];
  const { device, deviceid } = box.attributes;
  const where = device && device !== "cpu" ? `${device}${deviceid && !device.includes(":") ? `:${deviceid}` : ""}` : "";
  const parts = ["batch_size", "threads", "queue_size"].flatMap((key) => (box.attributes[key] ? [`${key.split("_")[0]} ${box.attributes[key]}`] : []));
  const own = Object.entries(box.attributes).filter(([key]) => !HIDDEN.has(key));
  const head = [box.name, box.unit === box.name ? box.kind : box.unit, [where, ...parts].filter(Boolean).join(" · ")].filter(Boolean);
  const room = MOST_LINES - head.length;
  const shown = own.slice(0, own.length > room ? room - 1 : room).map(([key, value]) => `${key} ${value}`);
  const more = own.length > room ? [`and ${own.length - shown.length} more options`] : [];
  return [...head, ...shown, ...more].map((text) => cut(text, MOST_LETTERS));
}

function cut(text: string, most: number): string {
  return text.length > most ? `${text.slice(0, most - 1)}…` : text;
}

function at(box: Box, place: number) {
  if (box.kind === "port") return { x: box.width / 2, y: box.height / 2 + 4, "text-anchor": "middle" as const };
  return { x: PAD, y: 22 + place * 17 };
}

const HIDDEN = new Set(["type", "flowunit", "device", "deviceid", "batch_size", "threads", "queue_size", "pos", "label", "comment"]);

// The accessible name of a node begins with its visible text.
function describe(box: Box, findings: Finding[], figures: NodeFrame | undefined): string {
  const seen = figures ? figureWords(box, figures) : words(box);
  const more = [
    figures && figures.errors > 0 && `${figures.errors} failed`,
    figures && figures.capacity > 0 && `queue ${figures.queue} of ${figures.capacity} rows`,
    box.kind === "port" && `graph ${box.role}`,
    box.kind === "missing" && "unknown unit",
    box.attributes.comment && `comment: ${box.attributes.comment}`,
    findings.length > 0 && `${findings.length === 1 ? "error" : "errors"}: ${findings.map((one) => one.message).join("; ")}`,
  ];
  return [seen.join(" "), ...more.filter(Boolean)].join(", ");
}
