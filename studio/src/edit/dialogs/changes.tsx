// The changes that saving would make, and the choices if someone else has written the file.

import { useEffect, useState } from "preact/hooks";
import { Changes, Dialog } from "./dialog";
import { fileName } from "../view";
import type { State } from "../state";
import type { Work } from "../work";

export function ChangesDialog(props: { work: Work; onClose: () => void }) {
  const [diff, setDiff] = useState<string | null>(null);
  useEffect(() => void props.work.diff(props.work.state.saved).then(setDiff), []);
  return (
    <Dialog title="Unsaved changes" onClose={props.onClose}>
      {diff !== null && <Changes diff={diff} />}
      <p class="buttons">
        <button type="button" autofocus onClick={props.onClose}>
          Close
        </button>
        {diff && (
          <button
            type="button"
            onClick={() => {
              props.onClose();
              void props.work.revert();
            }}
          >
            Return to the saved file
          </button>
        )}
      </p>
    </Dialog>
  );
}

export function Conflict(props: { state: State; work: Work }) {
  const { state, work } = props;
  const stand = state.conflict!;
  const [diff, setDiff] = useState<string | null>(null);
  useEffect(() => void work.diff(stand.text).then(setDiff), [stand.mark]);
  return (
    <Dialog title={`Another program ${stand.mark ? "changed" : "removed"} ${fileName(state.file)}`} onClose={() => work.later()}>
      <p role="alert">The file was not written. Saving would make these changes:</p>
      {diff !== null && <Changes diff={diff} />}
      <p class="buttons">
        <button type="button" autofocus onClick={() => work.later()}>
          Continue editing
        </button>
        <button type="button" onClick={() => work.take(stand)}>
          Load the file
        </button>
        <button type="button" onClick={() => void work.save(stand)}>
          Overwrite the file
        </button>
      </p>
    </Dialog>
  );
}
