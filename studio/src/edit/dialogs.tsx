// Dialogs: choices, changes, and the list of keys.

import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";

export function Dialog(props: { title: string; onClose: () => void; children: ComponentChildren }) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => dialog.current?.showModal(), []);
  return (
    <dialog ref={dialog} aria-label={props.title} onClose={props.onClose}>
      <h2>{props.title}</h2>
      {props.children}
    </dialog>
  );
}

export function Changes(props: { diff: string }) {
  if (!props.diff) return <p>There are no changes.</p>;
  return (
    <pre class="diff" tabindex={0} role="region" aria-label="Changes">
      {props.diff.split("\n").map((line, place) => (
        <span key={place} class={line.startsWith("+") ? "more" : line.startsWith("-") ? "less" : line.startsWith("@") ? "at" : ""}>
          {`${line}\n`}
        </span>
      ))}
    </pre>
  );
}

export interface Choice {
  text: string;
  take: () => void;
}

export function Choices(props: { title: string; choices: Choice[]; onClose: () => void }) {
  return (
    <Dialog title={props.title} onClose={props.onClose}>
      <ul class="choices">
        {props.choices.map((choice, place) => (
          <li key={choice.text}>
            <button
              type="button"
              autofocus={place === 0}
              onClick={() => {
                props.onClose();
                choice.take();
              }}
            >
              {choice.text}
            </button>
          </li>
        ))}
      </ul>
    </Dialog>
  );
}

const KEYS: [string, string][] = [
  ["Tab", "go to the next node in the data flow"],
  ["← →", "follow an edge"],
  ["↑ ↓", "go to the node above or below"],
  ["Enter", "open the settings of the node"],
  ["c", "connect: move to the target node and press Enter"],
  ["Delete", "remove the selection"],
  ["/", "search the units; Enter adds the first match"],
  ["Ctrl+Z, Ctrl+Y", "undo, redo"],
  ["Ctrl+C, Ctrl+X, Ctrl+V", "copy, cut, paste DOT text, also between files"],
  ["Ctrl+A", "select all nodes"],
  ["Ctrl+S", "save"],
  ["Ctrl+Enter", "run, or stop a run"],
  ["+ − 0", "zoom in, zoom out, fit"],
  ["Escape", "cancel; back to the picture"],
  ["?", "show this list"],
];

export function Keys(props: { onClose: () => void }) {
  return (
    <Dialog title="Keys" onClose={props.onClose}>
      <dl class="keys">
        {KEYS.map(([key, what]) => (
          <div key={key}>
            <dt>
              <kbd>{key}</kbd>
            </dt>
            <dd>{what}</dd>
          </div>
        ))}
      </dl>
      <button type="button" onClick={props.onClose}>
        Close
      </button>
    </Dialog>
  );
}
