// The actions of the user on the graph, each as operations for the server.

import { center, type Point } from "./canvas/viewport";
import type { Wish } from "./canvas/canvas";
import { type Pair, pairsOf, portFor } from "./canvas/pairs";
import type { Choice } from "./dialogs/dialog";
import { INPUT, OUTPUT } from "./panels/unit_list";
import { type Box, endOf, type Operation, type Picture, type Wire } from "./view";
import type { Work } from "./work";

/** The graph and the selection that an action starts from, and the ways to change what is shown. */
export interface Desk {
  work: Work;
  picture: Picture | null;
  chosen: string[];
  chosenWire: Wire | null;
  select: (names: string[], wire?: Wire | null) => void;
  focus: (name: string, isQuiet?: boolean) => void; // quiet: the view does not move
  reveal: (names: string[]) => void;
  choose: (title: string, choices: Choice[]) => void;
}

/** The place of a wish that leaves the place of the new node to the server. */
export const NOWHERE: Pick<Wish, "at" | "on"> = { at: { x: NaN, y: NaN }, on: { x: 0, y: 0 } };

// Half of the size of a card, whose corner is at the place where the user dropped it.
export const HALF: Point = { x: 98, y: 51 };

export function boxOf(picture: Picture | null, name: string): Box | undefined {
  return picture?.boxes.find((box) => box.name === name);
}

export function connect(desk: Desk, sourceName: string, output: string | null, targetName: string, input: string | null): void {
  const { work } = desk;
  const [source, target] = [boxOf(desk.picture, sourceName), boxOf(desk.picture, targetName)];
  if (!source || !target) return;
  const pairs = pairsOf(source, output, target, input);
  const make = async ([from, to]: Pair) => {
    if (!(await work.edit({ do: "connect", source: endOf(source, from, "outputs"), target: endOf(target, to, "inputs") }))) return;
    work.notify(`connected ${sourceName} → ${targetName}`);
    desk.reveal([sourceName, targetName]);
  };
  if (!pairs.length) {
    const hasOutput = source.outputs.some((port) => !port.wrong);
    return work.fail(`cannot connect ${sourceName} to ${targetName}: ${hasOutput ? `${targetName} has no input` : `${sourceName} has no output`}`);
  }
  if (pairs.length === 1) return void make(pairs[0]!);
  desk.choose(
    `Choose the ports of ${sourceName} → ${targetName}`,
    pairs.map((pair) => ({ text: `${pair[0]} → ${pair[1]}`, take: () => void make(pair) })),
  );
}

/** Adds a unit: at a place, behind or before a port, or into a wire. The server chooses a free name. */
export async function add(desk: Desk, unit: string, wish: Wish | null): Promise<void> {
  const { work } = desk;
  const role = unit === INPUT ? "input" : unit === OUTPUT ? "output" : "";
  const name = freeName(role || unit.replace(/[^\w]/g, "_"), desk.picture); // operations mean the new node by it
  const operations: Operation[] = [{ do: "add", name, attributes: role ? { type: role } : { flowunit: unit } }];
  const found = work.state.catalog?.units.find((one) => one.name === unit);
  const own = (side: "inputs" | "outputs", dtype: string | null | undefined) => ({ node: name, port: portFor(found, side, { dtype }) });
  const box = wish?.node === undefined ? undefined : boxOf(desk.picture, wish.node);
  if (wish && box && wish.side === "outputs") operations.push({ do: "connect", source: endOf(box, wish.port!, "outputs"), target: own("inputs", wish.dtype) });
  if (wish && box && wish.side === "inputs") operations.push({ do: "connect", source: own("outputs", wish.dtype), target: endOf(box, wish.port!, "inputs") });
  if (wish?.wire) {
    const [source, target] = wish.wire.written;
    const dtype = (node: string, side: "inputs" | "outputs", port: string) => boxOf(desk.picture, node)?.[side].find((one) => one.name === port)?.dtype;
    operations.push(
      { do: "disconnect", source, target },
      { do: "connect", source, target: own("inputs", dtype(wish.wire.source, "outputs", wish.wire.output)) },
      { do: "connect", source: own("outputs", dtype(wish.wire.target, "inputs", wish.wire.input)), target },
    );
  }
  if (wish && !wish.wire && !Number.isNaN(wish.at.x)) operations.push({ do: "move", places: { [name]: [wish.at.x + HALF.x, wish.at.y + HALF.y] } });
  const added = await work.edit(...operations);
  if (added) show(desk, added, `added ${added.join(", ")}`);
}

function freeName(wanted: string, picture: Picture | null): string {
  let name = wanted;
  for (let number = 2; boxOf(picture, name); number++) name = `${wanted}_${number}`;
  return name;
}

/** Selects and shows new nodes. */
export function show(desk: Desk, names: string[], message: string): void {
  if (!names.length) return;
  desk.select(names);
  if (message) desk.work.notify(message);
  requestAnimationFrame(() => {
    desk.reveal(names);
    desk.focus(names[0]!);
  });
}

/** Moves nodes, and puts a single node into the wire on which it was dropped. */
export function move(desk: Desk, places: Record<string, [number, number]>, into: Wire | null): void {
  let operations: Operation[] = [{ do: "move", places }];
  const [name] = Object.keys(places);
  const box = boxOf(desk.picture, name ?? "");
  const [source, target] = [boxOf(desk.picture, into?.source ?? ""), boxOf(desk.picture, into?.target ?? "")];
  const enter = box && source && pairsOf(source, into!.output, box, null)[0];
  const leave = box && target && pairsOf(box, null, target, into!.input)[0];
  if (into && enter && leave) {
    operations = [
      { do: "disconnect", source: into.written[0], target: into.written[1] },
      { do: "connect", source: into.written[0], target: endOf(box, enter[1], "inputs") },
      { do: "connect", source: endOf(box, leave[0], "outputs"), target: into.written[1] },
    ];
    if (box.pinned) operations.push({ do: "unset", node: box.name, key: "pos" }); // its place is in the wire
  }
  void desk.work.edit(...operations);
}

/** Moves the selection by pixels of the picture. */
export function moveBy(desk: Desk, by: Point): void {
  const places = Object.fromEntries(
    desk.chosen.map((name) => {
      const at = center(boxOf(desk.picture, name)!);
      return [name, [at.x + by.x, at.y + by.y] as [number, number]];
    }),
  );
  void desk.work.edit({ do: "move", places }).then((added) => added && desk.reveal(desk.chosen));
}

export async function remove(desk: Desk): Promise<void> {
  const { picture, chosen, chosenWire, work } = desk;
  const leave = (name: string, removed: string) => {
    work.notify(`removed ${removed}; Undo restores`);
    requestAnimationFrame(() => {
      desk.focus(name, true);
      desk.select([]); // the next Delete removes nothing
    });
  };
  if (chosenWire) {
    if (await work.edit({ do: "disconnect", source: chosenWire.written[0], target: chosenWire.written[1] })) leave(chosenWire.source, `${chosenWire.source} → ${chosenWire.target}`);
  } else if (chosen.length) {
    const around = picture?.wires.flatMap((wire) => (chosen.includes(wire.target) ? [wire.source] : chosen.includes(wire.source) ? [wire.target] : [])) ?? [];
    const next = [...around, ...(picture?.boxes.map((box) => box.name) ?? [])].find((name) => !chosen.includes(name));
    if (await work.edit({ do: "remove", nodes: chosen })) leave(next ?? "", chosen.join(", "));
  }
}

export async function copy(desk: Desk, isCut: boolean): Promise<void> {
  const { chosen, work } = desk;
  if (!chosen.length) return;
  const clipping = await work.copy(chosen);
  if (clipping === null) return;
  try {
    await navigator.clipboard.writeText(clipping);
  } catch (error) {
    return work.fail(`the browser refused access to the clipboard: ${error}`);
  }
  if (isCut) await remove(desk);
  work.notify(`${isCut ? "cut" : "copied"} ${chosen.length} ${chosen.length === 1 ? "node" : "nodes"} to the clipboard as DOT text`);
}

export async function paste(desk: Desk, text: string): Promise<void> {
  show(desk, (await desk.work.edit({ do: "paste", text })) ?? [], "");
}

/** Asks for a unit behind a node. */
export function wishBehind(picture: Picture | null, name: string): Wish | null {
  const box = boxOf(picture, name);
  const port = box?.outputs.find((one) => !one.wrong && !one.optional) ?? box?.outputs.find((one) => !one.wrong);
  const body = document.querySelector(`[data-body=${CSS.escape(name)}]`)?.getBoundingClientRect();
  if (!box || !port || !body) return null;
  return { at: NOWHERE.at, on: { x: body.right + 16, y: body.top }, node: name, port: port.name, side: "outputs", dtype: port.dtype };
}
