// The units for the graph, and the ways to bring in more: a model, a folder of units, a new unit.

import type { RefObject } from "preact";
import { useState } from "preact/hooks";
import type { Catalog } from "../view";
import { UnitList } from "./unit_list";

interface Props {
  catalog: Catalog | null;
  field: RefObject<HTMLInputElement | null>;
  onAdd: (name: string) => void;
  onModel: () => void;
  onFolder: () => void;
  onNew: () => void;
  onLeave: () => void;
}

export function Palette(props: Props) {
  const [search, setSearch] = useState("");
  return (
    <section class="palette" aria-label="Units">
      <div class="bring">
        <button type="button" class="primary" onClick={props.onModel} title="m">
          A model…
        </button>
        <button type="button" onClick={props.onFolder}>
          A folder of units…
        </button>
        <button type="button" onClick={props.onNew}>
          Create a unit…
        </button>
      </div>
      <UnitList
        catalog={props.catalog}
        search={search}
        wish={null}
        field={props.field}
        onSearch={setSearch}
        onAdd={(name) => {
          setSearch("");
          props.onAdd(name);
        }}
        onLeave={() => {
          setSearch("");
          props.onLeave();
        }}
      />
      {props.catalog?.problems.map((problem) => (
        <p key={problem} class="problem">
          {problem}
        </p>
      ))}
    </section>
  );
}
