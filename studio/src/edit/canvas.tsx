// The picture of the graph: the user moves nodes, and draws wires from port to port.

import { useEffect, useRef, useState } from "preact/hooks";
import type { Frame } from "../live/frame";
import { Arrow, fastestOf, lookOf } from "../live/graph";
import { Node } from "./node";
import { curve, fitted, HOME, moved, type Point, portAt, readable, type Sight, zoomed } from "./sight";
import type { Box, Finding, Picture, Wire } from "./view";

export interface Wish {
  node: string;
  port: string;
  dtype: string | null;
  at: Point;
}

interface Drag {
  is: "pan" | "nodes" | "wire";
  names: string[];
  port: string;
  begin: Point;
  now: Point;
  hasMoved: boolean;
}

interface Props {
  picture: Picture;
  findings: Finding[];
  frame: Frame | null;
  selected: string[];
  wire: Wire | null;
  connecting: string;
  sight: Sight;
  onSight: (sight: Sight) => void;
  onSelect: (names: string[], wire?: Wire) => void;
  onMove: (places: Record<string, [number, number]>) => void;
  onConnect: (source: string, output: string, target: string, input: string | null) => void;
  onWish: (wish: Wish) => void;
  onDropUnit: (unit: string, at: Point) => void;
  onEnter: (name: string) => void;
}

const LEAST_DRAG = 3;

export function Canvas(props: Props) {
  const { picture, selected, sight } = props;
  const svg = useRef<SVGSVGElement>(null);
  const [drag, setDrag] = useState<Drag | null>(null);
  const boxes = new Map(picture.boxes.map((box) => [box.name, box]));
  const shift = drag?.is === "nodes" ? between(drag, sight) : null;
  const placed = (name: string): Box | undefined => {
    const box = boxes.get(name);
    return box && shift && drag!.names.includes(name) ? moved(box, shift) : box;
  };

  useEffect(() => {
    const cancel = (event: KeyboardEvent) => event.key === "Escape" && setDrag(null);
    addEventListener("keydown", cancel);
    return () => removeEventListener("keydown", cancel);
  }, []);

  const where = (event: { clientX: number; clientY: number }): Point => {
    const frame = svg.current!.getBoundingClientRect();
    return { x: event.clientX - frame.left, y: event.clientY - frame.top };
  };
  const onPage = (point: Point): Point => ({ x: (point.x - sight.x) / sight.k, y: (point.y - sight.y) / sight.k });

  const begin = (event: PointerEvent) => {
    if (event.button !== 0) return;
    const target = event.target as Element;
    const name = target.closest("[data-node]")?.getAttribute("data-node") ?? "";
    const output = target.closest("[data-output]")?.getAttribute("data-output") ?? "";
    const point = where(event);
    svg.current!.setPointerCapture(event.pointerId); // a drag continues outside of the picture
    const basis = { begin: point, now: point, hasMoved: false };
    if (output) setDrag({ ...basis, is: "wire", names: [name], port: output });
    else if (name) {
      const isMore = event.shiftKey || event.ctrlKey || event.metaKey;
      const names = selected.includes(name) ? (isMore ? selected.filter((one) => one !== name) : selected) : isMore ? [...selected, name] : [name];
      props.onSelect(names);
      setDrag({ ...basis, is: "nodes", names, port: "" });
    } else setDrag({ ...basis, is: "pan", names: [], port: "" });
  };
  const move = (event: PointerEvent) => {
    if (!drag) return;
    const now = where(event);
    const hasMoved = drag.hasMoved || Math.hypot(now.x - drag.begin.x, now.y - drag.begin.y) > LEAST_DRAG;
    if (drag.is === "pan" && hasMoved) props.onSight({ ...sight, x: sight.x + now.x - drag.now.x, y: sight.y + now.y - drag.now.y });
    setDrag({ ...drag, now, hasMoved });
  };
  const end = (event: PointerEvent) => {
    if (!drag) return;
    setDrag(null);
    if (drag.is === "pan" && !drag.hasMoved) {
      const wire = (document.elementFromPoint(event.clientX, event.clientY) as Element | null)?.closest("[data-wire]");
      const found = picture.wires[Number(wire?.getAttribute("data-place") ?? -1)];
      props.onSelect([], found);
    }
    if (drag.is === "nodes" && drag.hasMoved) {
      const by = between(drag, sight);
      const places = drag.names.flatMap((name) => {
        const box = boxes.get(name);
        return box ? [[name, [box.x + box.width / 2 + by.x, box.y + box.height / 2 + by.y]] as const] : [];
      });
      props.onMove(Object.fromEntries(places) as Record<string, [number, number]>);
    }
    if (drag.is === "wire") finish(event, drag);
  };
  const finish = (event: PointerEvent, from: Drag) => {
    const under = document.elementFromPoint(event.clientX, event.clientY);
    const target = under?.closest("[data-node]")?.getAttribute("data-node");
    const input = under?.closest("[data-input]")?.getAttribute("data-input") ?? null;
    const source = from.names[0]!;
    if (target && target !== source) props.onConnect(source, from.port, target, input);
    else if (!target && from.hasMoved) {
      const port = boxes.get(source)?.outputs.find((one) => one.name === from.port);
      props.onWish({ node: source, port: from.port, dtype: port?.dtype ?? null, at: onPage(where(event)) });
    }
  };
  const wheel = (event: WheelEvent) => {
    event.preventDefault();
    if (event.ctrlKey || event.metaKey || !event.shiftKey) props.onSight(zoomed(sight, where(event), Math.exp(-event.deltaY / 400)));
    else props.onSight({ ...sight, x: sight.x - event.deltaY });
  };

  const first = picture.boxes[0]?.name;
  const figures = new Map(props.frame?.nodes.map((node) => [node.node, node]));
  const fastest = fastestOf(props.frame);
  const limiting = props.frame?.verdict.level === "finding" ? props.frame.verdict.node : "";
  return (
    <svg
      ref={svg}
      class={drag ? `canvas ${drag.is}` : "canvas"}
      role="group"
      aria-label={`Graph ${picture.name}`}
      onPointerDown={begin}
      onPointerMove={move}
      onPointerUp={end}
      onPointerCancel={() => setDrag(null)}
      onWheel={wheel}
      onDragOver={(event) => event.preventDefault()}
      onDrop={(event) => {
        event.preventDefault();
        const unit = event.dataTransfer?.getData("application/x-modelflow-unit");
        if (unit) props.onDropUnit(unit, onPage(where(event)));
      }}
    >
      <Arrow gap={5} />
      <g transform={`translate(${sight.x} ${sight.y}) scale(${sight.k})`}>
        {picture.wires.map((wire, place) => {
          const isMoved = shift && (drag!.names.includes(wire.source) || drag!.names.includes(wire.target));
          const [source, target] = [placed(wire.source), placed(wire.target)];
          const path = isMoved && source && target ? curve(portAt(source, wire.output, "outputs"), portAt(target, wire.input, "inputs")) : wire.path;
          const isChosen = props.wire !== null && same(props.wire, wire);
          const look = props.frame && lookOf(wire, figures, fastest);
          return (
            <g key={`${wire.source}:${wire.output} ${wire.target}:${wire.input}`} data-wire={`${wire.source} ${wire.target}`} data-place={place} class={isChosen ? "line chosen" : "line"}>
              <path class="grip" d={path} />
              <path class={look?.isFull ? "wire full" : "wire"} d={path} stroke-width={look?.width ?? 1.6} />
            </g>
          );
        })}
        {picture.boxes.map((box) => (
          <Node
            key={box.name}
            box={placed(box.name)!}
            isSelected={selected.includes(box.name)}
            isConnecting={props.connecting === box.name}
            isFirst={box.name === first}
            findings={props.findings.filter((one) => one.node === box.name)}
            figures={figures.get(box.name)}
            isLimiting={box.name === limiting}
            onFocus={() => selected.includes(box.name) || props.connecting || props.onSelect([box.name])}
            onOpen={() => props.onEnter(box.name)}
          />
        ))}
        {drag?.is === "wire" && boxes.get(drag.names[0]!) && (
          <path class="wire pending" d={curve(portAt(boxes.get(drag.names[0]!)!, drag.port, "outputs"), onPage(drag.now))} />
        )}
        <Alerts picture={picture} findings={props.findings} placed={placed} />
      </g>
    </svg>
  );
}

function Alerts(props: { picture: Picture; findings: Finding[]; placed: (name: string) => Box | undefined }) {
  const shown = props.findings.filter((one) => one.port !== null && one.node !== null);
  return (
    <>
      {shown.map((finding) => {
        const box = props.placed(finding.node!);
        if (!box) return null;
        const isInput = box.inputs.some((one) => one.name === finding.port && (one.wrong || !one.used));
        const side = isInput ? "inputs" : "outputs";
        const at = portAt(box, finding.port!, side);
        return (
          <g key={finding.message} role="alert" data-alert={`${finding.node}:${finding.port}`} transform={`translate(${at.x} ${at.y})`}>
            <circle class="wrong" r={9} />
            <text class="alert" x={isInput ? -12 : 12} y={-8} text-anchor={isInput ? "end" : "start"}>
              {finding.node}:{finding.port}, line {finding.line}
            </text>
            <title>{finding.message}</title>
          </g>
        );
      })}
    </>
  );
}

function between(drag: Drag, sight: Sight): Point {
  return { x: (drag.now.x - drag.begin.x) / sight.k, y: (drag.now.y - drag.begin.y) / sight.k };
}

function same(one: Wire, other: Wire): boolean {
  return one.source === other.source && one.output === other.output && one.target === other.target && one.input === other.input;
}

export { fitted, HOME, readable, zoomed };
export type { Point, Sight };
