// Explains the colours and the shapes of the graph.

export const STATES = [
  ["busy", "a call of the unit runs"],
  ["blocked", "the next queue is full"],
  ["order", "earlier rows go first"],
  ["starved", "the node has no rows"],
] as const;

export function Legend() {
  return (
    <ul class="legend" aria-label="Legend">
      {STATES.map(([name, meaning]) => (
        <li key={name}>
          <span class={`swatch ${name}`} />
          {name}: {meaning}
        </li>
      ))}
      <li>
        <span class="swatch cells" />
        cells: rows in the queue, of its room
      </li>
      <li>
        <span class="swatch wide" />
        width of a line: rows a second
      </li>
      <li>
        <span class="swatch wide amber" />
        amber: the queue is over 90 % full
      </li>
      <li>
        <span class="swatch red" />
        red border: the node that the red sentence names
      </li>
    </ul>
  );
}
