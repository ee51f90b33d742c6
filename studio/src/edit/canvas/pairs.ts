// Finds the ports that an edge can connect.

import { type Box, fits, type Unit } from "../view";
import type { Wish } from "./canvas";

export type Pair = [string, string];

/** Returns pairs of ports for an edge: free inputs of a fitting type if there are any, else all. */
export function pairsOf(source: Box, output: string | null, target: Box, input: string | null): Pair[] {
  const outputs = source.outputs.filter((port) => !port.wrong && (output === null || port.name === output));
  const inputs = target.inputs.filter((port) => !port.wrong && (input === null || port.name === input));
  const pairs = outputs.flatMap((from) => inputs.map((to) => [from, to] as const));
  const isWell = ([from, to]: (typeof pairs)[number]) => fits(from, to) && !to.used;
  const well = pairs.filter(isWell);
  const needed = well.filter(([from]) => !from.optional);
  const best = needed.length ? needed : well.length ? well : pairs;
  return best.map(([from, to]) => [from.name, to.name]);
}

/** Returns the port of a new unit that an open wire ends at; null if the unit has only one. */
export function portFor(unit: Unit | undefined, side: "inputs" | "outputs", wish: Pick<Wish, "dtype">): string | null {
  if (!unit || unit[side].length === 1) return null;
  const open = { dtype: wish.dtype ?? null };
  return unit[side].find((port) => fits(open, port))?.name ?? null;
}
