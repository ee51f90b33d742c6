// The picture of the graph: the user moves nodes, selects them, and draws wires from port to port.

import { useEffect, useRef, useState } from "preact/hooks";
import type { Frame } from "../../live/frame";
import { Arrow, fastestOf, lookOf } from "../../live/graph";
import type { Box, Finding, Picture, Wire } from "../view";
import { Alerts } from "./alerts";
import { areaOf, type Drag, follow, hit, namesIn, shiftOf } from "./gestures";
import { Node } from "./node";
import { center, drawCurve, locatePort, type Point, shift, type Viewport, zoom } from "./viewport";

/** A place for a new unit: the end of an open wire, a wire, or a place in the picture. */
export interface Wish {
  at: Point; // in the picture
  on: Point; // in the window
  node?: string;
  port?: string;
  side?: "inputs" | "outputs";
  dtype?: string | null;
  wire?: Wire;
}

interface Props {
  picture: Picture;
  findings: Finding[];
  frame: Frame | null;
  selected: string[];
  wire: Wire | null;
  connecting: string;
  viewport: Viewport;
  onViewport: (viewport: Viewport) => void;
  onSelect: (names: string[], wire?: Wire) => void;
  onMove: (places: Record<string, [number, number]>, into: Wire | null) => void;
  onConnect: (source: string, output: string | null, target: string, input: string | null) => void;
  onWish: (wish: Wish) => void;
  onDropUnit: (unit: string, at: Point, into: Wire | null) => void;
  onOpen: () => void;
}

export const UNIT = "application/x-modelflow-unit";

export function Canvas(props: Props) {
  const { picture, selected, viewport } = props;
  const svg = useRef<SVGSVGElement>(null);
  const [drag, setDrag] = useState<Drag | null>(null);
  const [over, setOver] = useState(-1); // the place of the wire that takes in what is dropped
  const boxes = new Map(picture.boxes.map((box) => [box.name, box]));
  const moves = drag?.is === "nodes" ? shiftOf(drag, picture, viewport) : null;
  const place = (name: string): Box | undefined => {
    const box = boxes.get(name);
    return box && moves && drag!.names.includes(name) ? shift(box, moves.by) : box;
  };
  const marked = drag?.is === "select" ? namesIn(drag, picture, viewport) : selected;

  useEffect(() => {
    const cancel = (event: KeyboardEvent) => event.key === "Escape" && setDrag(null);
    addEventListener("keydown", cancel);
    return () => removeEventListener("keydown", cancel);
  }, []);

  const locate = (event: { clientX: number; clientY: number }): Point => {
    const frame = svg.current!.getBoundingClientRect();
    return { x: event.clientX - frame.left, y: event.clientY - frame.top };
  };
  const toPicture = (point: Point): Point => ({ x: (point.x - viewport.x) / viewport.k, y: (point.y - viewport.y) / viewport.k });
  const isFree = (name: string) => !picture.wires.some((wire) => wire.source === name || wire.target === name);

  const begin = (event: PointerEvent) => {
    if (event.button !== 0) return;
    const found = hit(event.clientX, event.clientY);
    const now = locate(event);
    svg.current!.setPointerCapture(event.pointerId); // a drag continues outside of the picture
    const isMore = event.shiftKey || event.ctrlKey || event.metaKey;
    const basis: Drag = { is: "pan", names: [], port: "", side: "outputs", begin: now, now, hasMoved: false, isFree: event.altKey };
    const port = found.output ?? found.input;
    if (found.node && port !== null) setDrag({ ...basis, is: "wire", names: [found.node], port, side: found.output === null ? "inputs" : "outputs" });
    else if (found.node) {
      const isSelected = selected.includes(found.node);
      const names = isSelected ? (isMore ? selected.filter((one) => one !== found.node) : selected) : isMore ? [...selected, found.node] : [found.node];
      props.onSelect(names);
      setDrag({ ...basis, is: "nodes", names: [...new Set([found.node, ...names])].filter((name) => names.includes(name)) });
    } else setDrag({ ...basis, is: isMore ? "select" : "pan", names: isMore ? selected : [] });
  };
  const move = (event: PointerEvent) => {
    if (!drag) return;
    const next = follow(drag, locate(event), event.altKey);
    if (drag.is === "pan" && next.hasMoved) props.onViewport({ ...viewport, x: viewport.x + next.now.x - drag.now.x, y: viewport.y + next.now.y - drag.now.y });
    if (drag.is === "nodes" && drag.names.length === 1 && isFree(drag.names[0]!)) setOver(hit(event.clientX, event.clientY, drag.names).wire);
    setDrag(next);
  };
  const end = (event: PointerEvent) => {
    if (!drag) return;
    setDrag(null);
    setOver(-1);
    const found = hit(event.clientX, event.clientY, drag.is === "nodes" ? drag.names : []);
    if (drag.is === "pan" && !drag.hasMoved) props.onSelect([], picture.wires[found.wire]);
    if (drag.is === "nodes" && !drag.hasMoved && selected.length > 1 && !(event.shiftKey || event.ctrlKey || event.metaKey)) props.onSelect(drag.names.slice(0, 1));
    if (drag.is === "select") props.onSelect(namesIn(drag, picture, viewport));
    if (drag.is === "nodes" && drag.hasMoved) {
      const { by } = shiftOf(drag, picture, viewport);
      const places = drag.names.flatMap((name) => {
        const box = boxes.get(name);
        return box ? [[name, [center(box).x + by.x, center(box).y + by.y]] as const] : [];
      });
      props.onMove(Object.fromEntries(places) as Record<string, [number, number]>, picture.wires[over] ?? null);
    }
    if (drag.is === "wire") finish(event, drag);
  };
  const finish = (event: PointerEvent, from: Drag) => {
    const found = hit(event.clientX, event.clientY);
    const own = from.names[0]!;
    if (found.node && found.node !== own) {
      if (from.side === "outputs") props.onConnect(own, from.port, found.node, found.input);
      else props.onConnect(found.node, found.output, own, from.port);
    } else if (!found.node && from.hasMoved) {
      const port = boxes.get(own)?.[from.side].find((one) => one.name === from.port);
      props.onWish({ at: toPicture(locate(event)), on: { x: event.clientX, y: event.clientY }, node: own, port: from.port, side: from.side, dtype: port?.dtype ?? null });
    }
  };
  const wheel = (event: WheelEvent) => {
    event.preventDefault();
    if (event.ctrlKey || event.metaKey || !event.shiftKey) props.onViewport(zoom(viewport, locate(event), Math.exp(-event.deltaY / 400)));
    else props.onViewport({ ...viewport, x: viewport.x - event.deltaY });
  };
  const search = (event: MouseEvent) => {
    const found = hit(event.clientX, event.clientY);
    if (found.node) return props.onOpen(); // the canvas has captured the pointer, and gets the event
    props.onWish({ at: toPicture(locate(event)), on: { x: event.clientX, y: event.clientY }, wire: picture.wires[found.wire] });
  };

  const figures = new Map(props.frame?.nodes.map((node) => [node.node, node]));
  const fastest = fastestOf(props.frame);
  const limiting = props.frame?.verdict.level === "finding" ? props.frame.verdict.node : "";
  const first = drag?.is === "wire" ? boxes.get(drag.names[0]!) : undefined;
  return (
    <svg
      ref={svg}
      class={["canvas", drag?.is, selected.length === 1 && "single"].filter(Boolean).join(" ")}
      style={{ backgroundSize: `${24 * viewport.k}px ${24 * viewport.k}px`, backgroundPosition: `${viewport.x}px ${viewport.y}px` }}
      role="group"
      aria-label={`Graph ${picture.name}`}
      onPointerDown={begin}
      onPointerMove={move}
      onPointerUp={end}
      onPointerCancel={() => setDrag(null)}
      onDblClick={search}
      onWheel={wheel}
      onDragOver={(event) => {
        if (!event.dataTransfer?.types.includes(UNIT)) return; // files are dropped on the page
        event.preventDefault();
        setOver(hit(event.clientX, event.clientY).wire);
      }}
      onDragLeave={() => setOver(-1)}
      onDrop={(event) => {
        const unit = event.dataTransfer?.getData(UNIT);
        if (!unit) return;
        event.preventDefault();
        setOver(-1);
        props.onDropUnit(unit, toPicture(locate(event)), picture.wires[hit(event.clientX, event.clientY).wire] ?? null);
      }}
    >
      <Arrow gap={5} />
      <g transform={`translate(${viewport.x} ${viewport.y}) scale(${viewport.k})`}>
        {picture.wires.map((wire, number) => {
          const isMoved = moves && (drag!.names.includes(wire.source) || drag!.names.includes(wire.target));
          const [source, target] = [place(wire.source), place(wire.target)];
          const path = isMoved && source && target ? drawCurve(locatePort(source, wire.output, "outputs"), locatePort(target, wire.input, "inputs")) : wire.path;
          const isChosen = props.wire !== null && isSame(props.wire, wire);
          const look = props.frame && lookOf(wire, figures, fastest);
          const marks = ["line", isChosen && "chosen", number === over && "taking"];
          return (
            <g key={`${wire.source}:${wire.output} ${wire.target}:${wire.input}`} data-wire={`${wire.source} ${wire.target}`} data-place={number} class={marks.filter(Boolean).join(" ")}>
              <path class="grip" d={path} />
              <path class={look?.isFull ? "wire full" : "wire"} d={path} stroke-width={look?.width ?? 1.6} />
            </g>
          );
        })}
        {picture.boxes.map((box) => (
          <Node
            key={box.name}
            box={place(box.name)!}
            isSelected={marked.includes(box.name)}
            isConnecting={props.connecting === box.name}
            findings={props.findings.filter((one) => one.node === box.name)}
            figures={figures.get(box.name)}
            isLimiting={box.name === limiting}
            onFocus={() => selected.includes(box.name) || props.connecting || props.onSelect([box.name])}
          />
        ))}
        {first && <path class="wire pending" d={pendingPath(first, drag!, toPicture(drag!.now))} />}
        {moves && moves.x !== null && <path class="guide" d={`M${moves.x} ${picture.y - 2000}V${picture.y + picture.height + 2000}`} />}
        {moves && moves.y !== null && <path class="guide" d={`M${picture.x - 2000} ${moves.y}H${picture.x + picture.width + 2000}`} />}
        {drag?.is === "select" && <rect class="area" {...areaOf(drag, viewport)} />}
        <Alerts findings={props.findings} place={place} />
      </g>
    </svg>
  );
}

function pendingPath(box: Box, drag: Drag, now: Point): string {
  const end = locatePort(box, drag.port, drag.side);
  return drag.side === "outputs" ? drawCurve(end, now) : drawCurve(now, end);
}

export function isSame(one: Wire, other: Wire): boolean {
  return one.source === other.source && one.output === other.output && one.target === other.target && one.input === other.input;
}
