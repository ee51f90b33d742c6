// The figures of all nodes as a table, which the reader can sort.

import { useRef, useState } from "preact/hooks";
import type { Frame, Marks, NodeFrame } from "./frame";
import { rateOf, shareOf, timeOf } from "../words";

interface Column {
  name: string;
  title: string;
  text: (node: NodeFrame) => string;
  value: (node: NodeFrame) => number | string;
}

const COLUMNS: Column[] = [
  { name: "unit", title: "the unit of the node, or its replicas", text: (node) => node.unit, value: (node) => node.unit },
  count("threads", "workers of the node", (node) => node.threads),
  { name: "rows/s", title: "rows a second that the unit got", text: (node) => rateOf(node.rate), value: (node) => node.rate },
  count("rows", "rows that the unit got from the start", (node) => node.rows),
  { name: "rows a call", title: "mean and most rows of a call", text: (node) => `${node.batch.toFixed(1)} of ${node.batch_size}`, value: (node) => node.batch },
  share("busy", "share of the workers' time in calls of the unit", (node) => node.busy),
  share("starved", "share of the workers' time without rows", (node) => node.starved),
  share("blocked", "share of the workers' time before a full queue", (node) => node.blocked),
  share("order", "share of the workers' time in which earlier rows had to go first", (node) => node.order),
  { name: "queue", title: "rows that wait now, and the room of the queue", text: (node) => (node.capacity ? `${node.queue} of ${node.capacity}` : "–"), value: (node) => node.queue },
  time("call p50", "half of the calls take no longer", (node) => node.service, "p50"),
  time("call p99", "99 of 100 calls take no longer", (node) => node.service, "p99"),
  time("wait p99", "in 99 of 100 calls the oldest row has waited no longer", (node) => node.wait, "p99"),
  count("failed", "rows that failed or came too late from the start", (node) => node.errors),
];

function count(name: string, title: string, value: (node: NodeFrame) => number): Column {
  return { name, title, value, text: (node) => value(node).toLocaleString("en") };
}

function share(name: string, title: string, value: (node: NodeFrame) => number): Column {
  return { name, title, value, text: (node) => shareOf(value(node)) };
}

function time(name: string, title: string, marks: (node: NodeFrame) => Marks | null, mark: keyof Marks): Column {
  const value = (node: NodeFrame) => marks(node)?.[mark] ?? -1;
  return { name, title, value, text: (node) => (marks(node) ? timeOf(value(node)) : "–") };
}

interface Row {
  name: string;
  node: NodeFrame;
  outer: string; // the node of the graph
}

interface Order {
  column: string;
  isDown: boolean;
}

// Seconds for which sorted rows keep their places, although their figures change.
const KEPT = 5;

export function Table(props: { frame: Frame; open: (node: string) => void }) {
  const { frame } = props;
  const [order, setOrder] = useState<Order | null>(null);
  const rows = frame.nodes.flatMap((node): Row[] => [
    { name: node.node, node, outer: node.node },
    ...node.inside.map((inner) => ({ name: `${node.node} > ${inner.node}`, node: inner, outer: node.node })),
  ]);
  const places = usePlaces(rows, order, frame.time);
  const sorted = order ? [...rows].sort((one, other) => (places.get(one.name) ?? rows.length) - (places.get(other.name) ?? rows.length)) : rows;
  const press = (column: string) => {
    if (order?.column !== column) setOrder({ column, isDown: true });
    else setOrder(order.isDown ? { column, isDown: false } : null);
  };
  const head = (name: string, title: string) => (
    <th scope="col" aria-sort={order?.column === name ? (order.isDown ? "descending" : "ascending") : "none"}>
      <button type="button" class="sort" title={title} onClick={() => press(name)}>
        {name}
        <span aria-hidden="true">{order?.column === name ? (order.isDown ? "↓" : "↑") : ""}</span>
      </button>
    </th>
  );
  return (
    <div class="scrolls" role="region" aria-label="Nodes" tabindex={0}>
      <table>
        <caption>Figures of the last two seconds; "rows" and "failed" count from the start</caption>
        <thead>
          <tr>
            {head("node", "the name of the node; the rows follow the data")}
            {COLUMNS.map(({ name, title }) => head(name, title))}
          </tr>
        </thead>
        <tbody>
          {sorted.map(({ name, node, outer }) => (
            <tr key={name} data-row={name}>
              <th scope="row">
                <button type="button" class="link" onClick={() => props.open(outer)}>
                  {name}
                </button>
              </th>
              {COLUMNS.map((column) => (
                <td data-column={column.name}>{column.text(node)}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** Returns the place of each row. Rows move at a press of a button, and else once in some seconds. */
function usePlaces(rows: Row[], order: Order | null, time: number): Map<string, number> {
  const kept = useRef<{ order: Order | null; since: number; places: Map<string, number> }>({ order: null, since: 0, places: new Map() });
  const { current } = kept;
  if (order && (current.order !== order || !(Math.abs(time - current.since) < KEPT))) {
    const column = COLUMNS.find((one) => one.name === order.column);
    const value = (row: Row) => (column ? column.value(row.node) : row.name);
    const names = [...rows]
      .sort((one, other) => (value(one) < value(other) ? -1 : value(one) > value(other) ? 1 : 0) * (order.isDown ? -1 : 1))
      .map((row) => row.name);
    kept.current = { order, since: time, places: new Map(names.map((name, place) => [name, place])) };
  }
  return kept.current.places;
}
