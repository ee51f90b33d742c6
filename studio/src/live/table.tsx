// The figures of all nodes as a table.

import type { Frame, Marks, NodeFrame } from "./frame";
import { rateOf, shareOf, timeOf } from "../words";

const COLUMNS: [string, (node: NodeFrame) => string][] = [
  ["unit", (node) => node.unit],
  ["threads", (node) => String(node.threads)],
  ["rows/s", (node) => rateOf(node.rate)],
  ["rows", (node) => node.rows.toLocaleString("en")],
  ["rows a call", (node) => `${node.batch.toFixed(1)} of ${node.batch_size}`],
  ["busy", (node) => shareOf(node.busy)],
  ["starved", (node) => shareOf(node.starved)],
  ["blocked", (node) => shareOf(node.blocked)],
  ["order", (node) => shareOf(node.order)],
  ["queue", (node) => (node.capacity ? `${node.queue} of ${node.capacity}` : "–")],
  ["call p50", (node) => mark(node.service, "p50")],
  ["call p99", (node) => mark(node.service, "p99")],
  ["wait p99", (node) => mark(node.wait, "p99")],
  ["failed", (node) => String(node.errors)],
];

function mark(marks: Marks | null, name: keyof Marks): string {
  return marks ? timeOf(marks[name]) : "–";
}

function Row(props: { name: string; node: NodeFrame }) {
  return (
    <tr data-row={props.name}>
      <th scope="row">{props.name}</th>
      {COLUMNS.map(([name, text]) => (
        <td data-column={name}>{text(props.node)}</td>
      ))}
    </tr>
  );
}

export function Table(props: { frame: Frame }) {
  return (
    <div class="scrolls" role="region" aria-label="Nodes" tabindex={0}>
      <table>
        <caption>Figures of the last two seconds; "rows" and "failed" count from the start</caption>
        <thead>
          <tr>
            <th scope="col">node</th>
            {COLUMNS.map(([name]) => (
              <th scope="col">{name}</th>
            ))}
          </tr>
        </thead>
        <tbody>
          {props.frame.nodes.flatMap((node) => [
            <Row key={node.node} name={node.node} node={node} />,
            ...node.inside.map((inner) => {
              const name = `${node.node} > ${inner.node}`;
              return <Row key={name} name={name} node={inner} />;
            }),
          ])}
        </tbody>
      </table>
    </div>
  );
}
