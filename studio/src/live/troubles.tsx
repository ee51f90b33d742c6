// Errors, by node.

import type { Trouble } from "./frame";

export function Troubles(props: { troubles: Trouble[] }) {
  if (!props.troubles.length) return null;
  return (
    <section aria-label="Errors">
      <h2>Errors</h2>
      <div role="log">
        <ul class="troubles">
          {props.troubles.map((trouble) => (
            <li key={trouble.node} data-trouble={trouble.node}>
              <strong>{trouble.node}</strong>: {trouble.count.toLocaleString("en")} failed (
              {Object.entries(trouble.kinds)
                .map(([kind, count]) => `${count.toLocaleString("en")} ${kind}`)
                .join(", ")}
              )
              {trouble.last && <span class="last">last error: {trouble.last}</span>}
            </li>
          ))}
        </ul>
      </div>
    </section>
  );
}
