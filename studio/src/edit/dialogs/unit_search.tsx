// The search for a unit at a place of the picture: behind a port, in a wire, or on an empty place.

import { useState } from "preact/hooks";
import type { Wish } from "../canvas/canvas";
import { UnitList } from "../panels/unit_list";
import type { Catalog } from "../view";
import { Dialog } from "./dialog";

export function UnitSearch(props: { wish: Wish; catalog: Catalog | null; onAdd: (unit: string, wish: Wish) => void; onClose: () => void }) {
  const { wish } = props;
  const [search, setSearch] = useState("");
  return (
    <Dialog title={titleOf(wish)} at={wish.on} class="unit-search" onClose={props.onClose}>
      <UnitList catalog={props.catalog} search={search} wish={wish} hasFocus onSearch={setSearch} onAdd={(unit) => props.onAdd(unit, wish)} onLeave={props.onClose} />
    </Dialog>
  );
}

function titleOf(wish: Wish): string {
  if (wish.wire) return `Add a unit into ${wish.wire.source} → ${wish.wire.target}`;
  if (!wish.node) return "Add a unit here";
  return `Add a unit ${wish.side === "outputs" ? "behind" : "before"} ${wish.node}:${wish.port}`;
}
