// The units for the graph: the user searches them, drags them into the picture, or presses Enter.

import type { RefObject } from "preact";
import type { Wish } from "./canvas";
import { type Catalog, fits, type Unit } from "./view";

export const INPUT = "graph input";
export const OUTPUT = "graph output";

const PORTS = [
  { name: INPUT, about: "receives data from the caller" },
  { name: OUTPUT, about: "returns results to the caller" },
];

interface Props {
  catalog: Catalog | null;
  search: string;
  wish: Wish | null;
  field: RefObject<HTMLInputElement | null>;
  onSearch: (text: string) => void;
  onAdd: (name: string) => void;
  onNew: () => void;
  onLeave: () => void;
}

export function Palette(props: Props) {
  const groups = found(props);
  const first = [...groups.values()][0]?.[0];
  const walk = (event: KeyboardEvent) => {
    if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
    const all = [...(event.currentTarget as Element).querySelectorAll<HTMLElement>("input, button")];
    const place = all.indexOf(document.activeElement as HTMLElement);
    all[place + (event.key === "ArrowDown" ? 1 : -1)]?.focus();
    event.preventDefault();
  };
  return (
    <section class="palette" aria-label="Units" onKeyDown={walk}>
      <label>
        <span>Units</span>
        <input
          ref={props.field}
          type="search"
          placeholder="search  ( / )"
          value={props.search}
          onInput={(event) => props.onSearch(event.currentTarget.value)}
          onKeyDown={(event) => {
            if (event.key === "Enter" && first) props.onAdd(first.name);
            if (event.key === "Escape") props.onLeave();
          }}
        />
      </label>
      {props.wish && (
        <p class="wish" role="status">
          Units for {props.wish.node}:{props.wish.port} (Escape cancels)
        </p>
      )}
      {[...groups].map(([group, units]) => (
        <div key={group} role="group" aria-label={group}>
          <h3>{group}</h3>
          {units.map((unit) => (
            <button
              key={unit.name}
              type="button"
              data-unit={unit.name}
              title={unit.about}
              draggable
              onDragStart={(event) => event.dataTransfer?.setData("application/x-modelflow-unit", unit.name)}
              onClick={() => props.onAdd(unit.name)}
            >
              <strong>{unit.name}</strong> <span>{unit.about}</span>
            </button>
          ))}
        </div>
      ))}
      {!groups.size && <p role="status">no unit matches</p>}
      <button type="button" class="new" onClick={props.onNew}>
        Create a unit…
      </button>
      {props.catalog?.problems.map((problem) => (
        <p key={problem} class="problem">
          {problem}
        </p>
      ))}
    </section>
  );
}

function found(props: Props): Map<string, { name: string; about: string }[]> {
  const words = props.search.toLowerCase().split(/\s+/).filter(Boolean);
  const has = (one: { name: string; about: string }) => words.every((word) => `${one.name} ${one.about}`.toLowerCase().includes(word));
  const rank = (one: { name: string }) => (words[0] && one.name.startsWith(words[0]) ? 0 : 1);
  const units = (props.catalog?.units ?? []).filter((unit) => has(unit) && takes(unit, props.wish));
  const groups = new Map<string, { name: string; about: string }[]>();
  const ports = PORTS.filter((port) => has(port) && (!props.wish || port.name === OUTPUT));
  for (const unit of units.sort((one, other) => rank(one) - rank(other) || compare(one, other))) {
    const group = unit.group || "Other units";
    groups.set(group, [...(groups.get(group) ?? []), unit]);
  }
  if (ports.length) groups.set("Graph", ports);
  return groups;
}

function takes(unit: Unit, wish: Wish | null): boolean {
  return !wish || unit.inputs.some((input) => fits(wish, input));
}

function compare(one: Unit, other: Unit): number {
  return one.group.localeCompare(other.group) || one.name.localeCompare(other.name);
}
