// Dialogs: a choice, the changes of a text, and the list of keys.

import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";
import type { Point } from "../canvas/viewport";

/** A dialog, in the middle or at a point of the window. The focus returns to where it was. */
export function Dialog(props: { title: string; at?: Point; class?: string; onClose: () => void; children: ComponentChildren }) {
  const dialog = useRef<HTMLDialogElement>(null);
  // A layout effect: the next key already belongs to the dialog.
  useLayoutEffect(() => {
    const before = document.activeElement as HTMLElement | null;
    const shown = dialog.current!;
    shown.showModal();
    if (props.at) {
      const frame = shown.getBoundingClientRect();
      shown.style.margin = "0";
      shown.style.left = `${Math.max(8, Math.min(props.at.x, innerWidth - frame.width - 8))}px`;
      shown.style.top = `${Math.max(8, Math.min(props.at.y, innerHeight - frame.height - 8))}px`;
    }
    const restore = () => {
      if (document.activeElement !== document.body) return;
      if (before?.isConnected && before !== document.body) before.focus();
      else document.querySelector<HTMLElement>("[data-body], .stage")?.focus();
    };
    return () => queueMicrotask(restore); // once the dialog is removed; until then the page is inert
  }, []);
  const leave = (event: MouseEvent) => {
    if (props.at && event.target === dialog.current) props.onClose(); // a press outside
  };
  return (
    <dialog ref={dialog} class={props.class} aria-label={props.title} onClose={props.onClose} onPointerDown={leave}>
      <h2>{props.title}</h2>
      {props.children}
    </dialog>
  );
}

/** Returns a reference to contents that come later than their dialog; an element in them gets the focus. */
export function useFocus<Kind extends Element>(selector: string) {
  const contents = useRef<Kind>(null);
  useLayoutEffect(() => contents.current?.querySelector<HTMLElement>(selector)?.focus(), []);
  return contents;
}

/** A button that opens the browser's chooser of files, or of a folder. */
export function FileButton(props: { text: string; isMany?: boolean; isFolder?: boolean; onFiles: (files: File[]) => void }) {
  return (
    <label class="button">
      {props.text}
      <input
        class="file"
        type="file"
        multiple={props.isMany}
        {...(props.isFolder && { webkitdirectory: true })}
        onChange={(event) => event.currentTarget.files?.length && props.onFiles([...event.currentTarget.files])}
      />
    </label>
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
  ["Alt+arrows", "move the selection"],
  ["Enter", "open the settings of the node"],
  ["a", "add a unit behind the node"],
  ["c", "connect: move to the target node and press Enter"],
  ["Delete", "remove the selection"],
  ["/", "search the units; Enter adds the first match"],
  ["m", "bring in a model"],
  ["Ctrl+F", "find in the nodes and the text; Enter goes to the next match"],
  ["Ctrl+Z, Ctrl+Y", "undo, redo"],
  ["Ctrl+C, Ctrl+X, Ctrl+V", "copy, cut, paste DOT text, also between files"],
  ["Ctrl+A", "select all nodes"],
  ["Ctrl+S", "save"],
  ["Ctrl+Enter", "run, or stop a run"],
  ["r", "show the results of the last run"],
  ["+ − 0", "zoom in, zoom out, fit"],
  ["Escape", "cancel; back to the picture"],
  ["?", "show this list"],
];

const MOUSE: [string, string][] = [
  ["drag a port", "connect; on an empty place: choose a unit for the open edge"],
  ["double click", "add a unit there; on an edge: into the edge"],
  ["drop a unit on an edge", "put the unit into the edge"],
  ["Shift+drag", "select all nodes in an area"],
  ["drag the picture, wheel", "move the view, zoom"],
  ["Alt while dragging", "place freely, without alignment"],
  ["drop files on the page", "bring in models and folders of units; run the graph on others"],
];

export function Keys(props: { onClose: () => void }) {
  return (
    <Dialog title="Keys and mouse" class="keys" onClose={props.onClose}>
      <dl tabindex={0}>
        {[...KEYS, ...MOUSE].map(([key, what]) => (
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
