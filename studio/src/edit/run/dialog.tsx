// The samples for a run of the graph.

import { useState } from "preact/hooks";
import { Dialog, FileButton } from "../dialogs/dialog";
import { encode } from "../upload";
import type { Sample } from "../state";

/** The chosen samples of an input, which are kept for the next run. */
export interface Chosen {
  kind: "files" | "text" | "json";
  files: File[];
  text: string;
}

export const NOTHING: Chosen = { kind: "files", files: [], text: "" };

interface Props {
  inputs: string[];
  chosen: Record<string, Chosen>;
  onChange: (chosen: Record<string, Chosen>) => void;
  onRun: (samples: Record<string, Sample[]>, isRepeated: boolean) => Promise<string>; // returns the reason of a refusal
  onClose: () => void;
}

export function RunDialog(props: Props) {
  const { inputs, chosen } = props;
  const [isRepeated, setRepeated] = useState(false);
  const [problem, setProblem] = useState("");
  const change = (name: string, part: Partial<Chosen>) => props.onChange({ ...chosen, [name]: { ...(chosen[name] ?? NOTHING), ...part } });
  return (
    <Dialog title="Run the graph" class="run-dialog" onClose={props.onClose}>
      <form
        class="run"
        onSubmit={(event) => {
          event.preventDefault();
          void samplesOf(inputs, chosen)
            .then((samples) => props.onRun(samples, isRepeated))
            .then(setProblem);
        }}
      >
        {inputs.map((name, place) => (
          <Input key={name} name={name} chosen={chosen[name] ?? NOTHING} isFirst={place === 0} onChange={(part) => change(name, part)} />
        ))}
        <label class="check">
          <input type="checkbox" checked={isRepeated} onChange={(event) => setRepeated(event.currentTarget.checked)} /> repeat until stopped
        </label>
        {problem && (
          <p class="problem" role="alert">
            {problem}
          </p>
        )}
        <p class="buttons">
          <button type="submit" class="primary">
            Run
          </button>
          <button type="button" onClick={props.onClose}>
            Cancel
          </button>
        </p>
      </form>
    </Dialog>
  );
}

function Input(props: { name: string; chosen: Chosen; isFirst: boolean; onChange: (part: Partial<Chosen>) => void }) {
  const { name, chosen } = props;
  const names = chosen.files.map((file) => file.name);
  return (
    <fieldset data-sample={name}>
      <legend>{name}</legend>
      <label>
        data{" "}
        <select value={chosen.kind} autofocus={props.isFirst} onChange={(event) => props.onChange({ kind: event.currentTarget.value as Chosen["kind"] })}>
          <option value="files">files (bytes)</option>
          <option value="text">text</option>
          <option value="json">JSON value</option>
        </select>
      </label>
      {chosen.kind === "files" ? (
        <p class="buttons">
          <FileButton text={names.length ? "Choose other files…" : "Choose files…"} isMany onFiles={(files) => props.onChange({ files })} />
          <span>{names.length > 3 ? `${names.length} files` : names.join(", ") || <span class="quiet">no file yet; you can also drop files on the page</span>}</span>
        </p>
      ) : (
        <label>
          {chosen.kind === "json" ? "JSON value, such as [1, 2, 3]" : "text"}
          <textarea rows={4} spellcheck={false} value={chosen.text} onInput={(event) => props.onChange({ text: event.currentTarget.value })} />
        </label>
      )}
    </fieldset>
  );
}

async function samplesOf(inputs: string[], chosen: Record<string, Chosen>): Promise<Record<string, Sample[]>> {
  const found: Record<string, Sample[]> = {};
  for (const name of inputs) {
    const { kind, files, text } = chosen[name] ?? NOTHING;
    if (kind === "files") found[name] = await Promise.all(files.map(async (file) => ({ name: file.name, base64: await encode(file) })));
    else found[name] = [kind === "json" ? { json: text } : { text }];
  }
  return found;
}
