// The units that fit a search, as a field and a list. The field is one tab stop; arrow keys walk the list.

import type { RefObject } from "preact";
import { UNIT, type Wish } from "../canvas/canvas";
import { type Catalog, fits, type Unit } from "../view";

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
  field?: RefObject<HTMLInputElement | null>;
  hasFocus?: boolean;
  onSearch: (text: string) => void;
  onAdd: (name: string) => void;
  onLeave: () => void;
}

interface Entry {
  name: string;
  about: string;
}

export function UnitList(props: Props) {
  const groups = groupUnits(props);
  const first = [...groups.values()][0]?.[0];
  const walk = (event: KeyboardEvent) => {
    if (event.key === "Escape") props.onLeave();
    if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
    const all = [...(event.currentTarget as Element).querySelectorAll<HTMLElement>("input, [data-unit]")];
    const place = all.indexOf(document.activeElement as HTMLElement);
    all[place + (event.key === "ArrowDown" ? 1 : -1)]?.focus();
    event.preventDefault();
  };
  return (
    <div class="units" onKeyDown={walk}>
      <input
        ref={props.field}
        type="search"
        aria-label="Search the units"
        autofocus={props.hasFocus}
        placeholder="search units ( / )"
        value={props.search}
        onInput={(event) => props.onSearch(event.currentTarget.value)}
        onKeyDown={(event) => event.key === "Enter" && first && props.onAdd(first.name)}
      />
      {[...groups].map(([group, units]) => (
        <div key={group} role="group" aria-label={group}>
          <h3>{group}</h3>
          {units.map((unit) => (
            <button
              key={unit.name}
              type="button"
              tabindex={-1}
              data-unit={unit.name}
              title={unit.about}
              draggable
              onDragStart={(event) => event.dataTransfer?.setData(UNIT, unit.name)}
              onClick={() => props.onAdd(unit.name)}
            >
              <strong>{unit.name}</strong> <span>{unit.about}</span>
            </button>
          ))}
        </div>
      ))}
      {!groups.size && <p role="status">No unit matches. For a model choose “A model…”, for code of your own “Create a unit…”.</p>}
    </div>
  );
}

function groupUnits(props: Props): Map<string, Entry[]> {
  const words = props.search.toLowerCase().split(/\s+/).filter(Boolean);
  const has = (one: Entry) => words.every((word) => `${one.name} ${one.about}`.toLowerCase().includes(word));
  const rank = (one: Entry) => (words[0] && one.name.startsWith(words[0]) ? 0 : 1);
  const units = (props.catalog?.units ?? []).filter((unit) => has(unit) && takes(unit, props.wish));
  const groups = new Map<string, Entry[]>();
  const ports = PORTS.filter((port) => has(port) && hasEnd(port.name, props.wish));
  for (const unit of units.sort((one, other) => rank(one) - rank(other) || compare(one, other))) {
    const group = unit.group || "Other units";
    groups.set(group, [...(groups.get(group) ?? []), unit]);
  }
  if (ports.length) groups.set("Graph", ports);
  return groups;
}

/** Whether a unit has a port for the open wire, or an input and an output for the wire that it splits. */
function takes(unit: Unit, wish: Wish | null): boolean {
  if (wish?.wire) return unit.inputs.length > 0 && unit.outputs.length > 0;
  if (!wish?.side) return true;
  const open = { dtype: wish.dtype ?? null };
  return unit[wish.side === "outputs" ? "inputs" : "outputs"].some((port) => fits(open, port));
}

function hasEnd(port: string, wish: Wish | null): boolean {
  if (wish?.wire) return false;
  return !wish?.side || port === (wish.side === "outputs" ? OUTPUT : INPUT);
}

function compare(one: Unit, other: Unit): number {
  return one.group.localeCompare(other.group) || one.name.localeCompare(other.name);
}
