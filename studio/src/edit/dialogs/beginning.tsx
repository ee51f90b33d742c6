// The dialogs for the template of a new graph, and for a new unit.

import { useState } from "preact/hooks";
import { Dialog } from "./dialog";
import type { Starter } from "../view";

export function Beginning(props: { file: string; starters: Starter[]; onTake: (name: string) => void; onClose: () => void }) {
  return (
    <Dialog title={`${props.file} is new. Choose a template`} onClose={props.onClose}>
      <ul class="choices">
        {props.starters.map((starter, place) => (
          <li key={starter.name}>
            <button type="button" autofocus={place === 0} data-starter={starter.name} onClick={() => props.onTake(starter.name)}>
              <strong>{starter.name}</strong> {starter.about}
            </button>
          </li>
        ))}
      </ul>
      {isDot(props.file) && <p class="quiet">Templates with models, and units of your own, need a file NAME.toml.</p>}
    </Dialog>
  );
}

export function isDot(file: string): boolean {
  return /\.(dot|gv)$/.test(file);
}

/** Explains that a DOT file has no place for folders of units. */
export function NoFolders(props: { file: string; onClose: () => void }) {
  return (
    <Dialog title="A DOT file names no folders of units" onClose={props.onClose}>
      <p>Models and units of your own need a TOML file. Convert the graph, and open the new file:</p>
      <p class="command">
        <code>
          modelflow convert {props.file} -o {props.file.replace(/\.\w+$/, ".toml")}
        </code>
      </p>
      <p class="buttons">
        <button type="button" autofocus onClick={props.onClose}>
          Close
        </button>
      </p>
    </Dialog>
  );
}

export function NewUnit(props: { kinds: string[]; onMake: (name: string, kind: string) => void; onClose: () => void }) {
  const [name, setName] = useState("");
  const [kind, setKind] = useState("normal");
  return (
    <Dialog title="Create a unit" onClose={props.onClose}>
      <form
        class="run"
        onSubmit={(event) => {
          event.preventDefault();
          props.onMake(name, kind);
        }}
      >
        <p class="quiet">The editor creates the unit's files (description, code, test) in the graph's folder of units. Edit them in your own editor. Every run reads them again.</p>
        <label>
          name (lower-case letters, digits, underscores)
          <input autofocus required pattern="[a-z][a-z0-9_]*" value={name} onInput={(event) => setName(event.currentTarget.value)} />
        </label>
        <label>
          kind
          <select value={kind} onChange={(event) => setKind(event.currentTarget.value)}>
            {props.kinds.map((one) => (
              <option key={one}>{one}</option>
            ))}
          </select>
        </label>
        <p class="buttons">
          <button type="submit">Create</button>
          <button type="button" onClick={props.onClose}>
            Cancel
          </button>
        </p>
      </form>
    </Dialog>
  );
}
