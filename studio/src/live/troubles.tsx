// Errors, by node.

import type { Trouble } from "./frame";
import { clockOf } from "../words";

export function Troubles(props: { troubles: Trouble[]; day: (time: number) => Date; open: (node: string) => void }) {
  if (!props.troubles.length) return null;
  return (
    <section aria-label="Errors">
      <h2>Errors</h2>
      <ul class="troubles">
        {props.troubles.map((trouble) => (
          <li key={trouble.node} data-trouble={trouble.node}>
            <button type="button" class="link" onClick={() => props.open(trouble.node)}>
              {trouble.node}
            </button>
            <span class="bad"> {trouble.count.toLocaleString("en")} failed</span>
            <Kinds trouble={trouble} day={props.day} />
          </li>
        ))}
      </ul>
    </section>
  );
}

/** The kinds of a node's errors, the latest first, with the time of the last one of each. */
export function Kinds(props: { trouble: Trouble; day: (time: number) => Date }) {
  const { kinds, at, last } = props.trouble;
  const sorted = Object.entries(kinds).sort(([one], [other]) => (at[other] ?? 0) - (at[one] ?? 0));
  return (
    <ul class="kinds">
      {sorted.map(([kind, count], place) => (
        <li key={kind}>
          {count.toLocaleString("en")} {kind}
          {at[kind] !== undefined && <span class="quiet">, last at {clockOf(props.day(at[kind]))}</span>}
          {place === 0 && last && <span class="last">{last}</span>}
        </li>
      ))}
    </ul>
  );
}
