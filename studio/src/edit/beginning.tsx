// The dialogs for the template of a new graph, and for a new unit.

import { useState } from "preact/hooks";
import { Dialog } from "./dialogs";
import type { Starter } from "./view";

export function Beginning(props: { file: string; starters: Starter[]; onTake: (name: string) => void; onClose: () => void }) {
  return (
    <Dialog title={`${props.file} is new: what does it begin with?`} onClose={props.onClose}>
      <ul class="choices">
        {props.starters.map((starter, place) => (
          <li key={starter.name}>
            <button type="button" autofocus={place === 0} data-starter={starter.name} onClick={() => props.onTake(starter.name)}>
              <strong>{starter.name}</strong> {starter.about}
            </button>
          </li>
        ))}
      </ul>
    </Dialog>
  );
}

export function NewUnit(props: { kinds: string[]; onMake: (name: string, kind: string) => void; onClose: () => void }) {
  const [name, setName] = useState("");
  const [kind, setKind] = useState("normal");
  return (
    <Dialog title="A new unit" onClose={props.onClose}>
      <form
        class="run"
        onSubmit={(event) => {
          event.preventDefault();
          props.onMake(name, kind);
        }}
      >
        <p class="quiet">Its files are written into the graph's folder of units: what it takes and gives, its code, a test. Change them in an editor of yours; every run takes them as they are by then.</p>
        <label>
          name, of small letters, digits and underscores
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
          <button type="submit">Write it</button>
          <button type="button" onClick={props.onClose}>
            Cancel
          </button>
        </p>
      </form>
    </Dialog>
  );
}
