// Facts about the whole graph, and the values of its arguments in this page.

import type { Argument, Picture } from "../view";

interface Props {
  picture: Picture | null;
  notes: string[];
  many: number;
  args: Argument[];
  given: Record<string, string>;
  onGive: (name: string, value: string) => void;
}

export function About(props: Props) {
  const { picture, notes, many } = props;
  return (
    <section class="inspector" aria-label="Graph">
      <h2>{many > 1 ? `${many} nodes` : picture?.name || "Graph"}</h2>
      <p class="quiet">
        {count(picture?.boxes.length ?? 0, "node")}, {count(picture?.wires.length ?? 0, "edge")}.
      </p>
      {many > 1 ? (
        <p class="quiet">Drag them, copy them with Ctrl+C, or remove them with Delete.</p>
      ) : (
        <ul class="hints quiet">
          <li>Select a node to see its options.</li>
          <li>To add a unit, click it, drag it into the picture, or double-click a place.</li>
          <li>Drag from port to port to connect.</li>
          <li>Press ? to list all keys.</li>
        </ul>
      )}
      {props.args.length > 0 && <h3>Arguments for runs from this page</h3>}
      {props.args.map((arg) => (
        <div key={arg.name} class="field">
          <label>
            {arg.name}
            <input
              defaultValue={props.given[arg.name] ?? ""}
              placeholder={arg.default || "required"}
              data-argument={arg.name}
              spellcheck={false}
              onChange={(event) => props.onGive(arg.name, event.currentTarget.value)}
            />
          </label>
          {arg.help && <small>{arg.help}</small>}
        </div>
      ))}
      {notes.map((note) => (
        <p key={note} class="note">
          {note}
        </p>
      ))}
    </section>
  );
}

function count(number: number, noun: string): string {
  return `${number} ${noun}${number === 1 ? "" : "s"}`;
}
