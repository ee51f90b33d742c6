// The changes that saving would make, and the choices if someone else has written the file.

import { useEffect, useState } from "preact/hooks";
import { Changes, Dialog } from "./dialogs";
import { fileName, type State, type Work } from "./work";

export function ChangesDialog(props: { work: Work; onClose: () => void }) {
  const [diff, setDiff] = useState<string | null>(null);
  useEffect(() => void props.work.diff(props.work.state.saved).then(setDiff), []);
  return (
    <Dialog title="Changes that are not saved" onClose={props.onClose}>
      {diff !== null && <Changes diff={diff} />}
      <button type="button" autofocus onClick={props.onClose}>
        Close
      </button>
    </Dialog>
  );
}

export function Conflict(props: { state: State; work: Work }) {
  const { state, work } = props;
  const stand = state.conflict!;
  const [diff, setDiff] = useState<string | null>(null);
  useEffect(() => void work.diff(stand.text).then(setDiff), [stand.mark]);
  return (
    <Dialog title={`${fileName(state.file)} ${stand.mark ? "was changed" : "was removed"} by somebody else`} onClose={() => work.later()}>
      <p role="alert">It was not written. This is what saving would change in it:</p>
      {diff !== null && <Changes diff={diff} />}
      <p class="buttons">
        <button type="button" autofocus onClick={() => work.later()}>
          Go on editing
        </button>
        <button type="button" onClick={() => work.take(stand)}>
          Take the file's text
        </button>
        <button type="button" onClick={() => void work.save(stand)}>
          Write mine over it
        </button>
      </p>
    </Dialog>
  );
}
