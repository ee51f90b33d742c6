// The changes that saving would make, and the choices if someone else has written the file.

import { useEffect, useState } from "preact/hooks";
import { Changes, Dialog } from "./dialog";
import { fileName } from "../view";
import type { State } from "../state";
import type { Work } from "../work";

export function ChangesDialog(props: { work: Work; onClose: () => void }) {
  return (
    <Dialog title="Unsaved changes" onClose={props.onClose}>
      <Difference work={props.work} before={props.work.state.saved} />
      <p class="buttons">
        <button type="button" autofocus onClick={props.onClose}>
          Close
        </button>
        {props.work.isChanged && (
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
  return (
    <Dialog title={`Another program ${stand.mark ? "changed" : "removed"} ${fileName(state.file)}`} onClose={() => work.later()}>
      <p role="alert">The file was not written. Saving would make these changes:</p>
      <Difference work={work} before={stand.text} />
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

function Difference(props: { work: Work; before: string }) {
  const { work, before } = props;
  const [diff, setDiff] = useState<string | null | undefined>(); // null: the server does not answer
  useEffect(() => void work.diff(before).then(setDiff), [before]);
  if (diff === undefined) return null;
  return diff === null ? <p class="problem">{work.state.problem}</p> : <Changes diff={diff} />;
}
