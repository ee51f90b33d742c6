// The samples for a run of the graph, and the state of the run.

import { useRef, useState } from "preact/hooks";
import type { Frame } from "../live/frame";
import { rateOf } from "../words";
import { Dialog } from "./dialogs";
import { type Run, said } from "./trial";
import type { Sample } from "./work";

/** The chosen samples of an input, which are kept for the next run. */
export interface Chosen {
  kind: "files" | "text" | "json";
  files: File[];
  text: string;
}

const NOTHING: Chosen = { kind: "files", files: [], text: "" };

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
    <Dialog title="Run the graph" onClose={props.onClose}>
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
          <button type="submit">Run</button>
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
  const field = useRef<HTMLInputElement>(null);
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
        <label>
          {names.length ? `${names.length === 1 ? names[0] : `${names.length} files`} (choose other files): ` : "files: "}
          <input ref={field} type="file" multiple onChange={() => props.onChange({ files: [...(field.current?.files ?? [])] })} />
        </label>
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
    if (kind === "files") found[name] = await Promise.all(files.map(async (file) => ({ name: file.name, base64: await base64(file) })));
    else found[name] = [kind === "json" ? { json: text } : { text }];
  }
  return found;
}

function base64(file: File): Promise<string> {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(String(reader.result).replace(/^[^,]*,?/, ""));
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(file);
  });
}

/** Shows the state of the run in a line. */
export function RunBar(props: { run: Run }) {
  const { trial, live } = props.run;
  if (trial.state === "none") return null;
  const { frame } = live;
  const isRunning = trial.state === "running";
  const failed = frame?.troubles.reduce((sum, trouble) => sum + trouble.count, 0) ?? 0;
  const isOfNode = frame?.nodes.some((node) => node.node === frame.verdict.node); // otherwise the verdict is about the samples
  return (
    <p class={trial.state === "failed" ? "runbar problem" : "runbar"} role="status" data-run={trial.state}>
      {said(trial)}
      {frame && isRunning && ` · ${rateOf(frame.rate)} ${frame.unit}`}
      {frame && trial.state !== "opening" && !isRunning && ` · ${rowsOf(frame)}`}
      {failed > 0 && <span class="problem"> · {failed.toLocaleString("en")} failed</span>}
      {frame && isRunning && isOfNode && <span class={`verdict ${frame.verdict.level}`}> · {frame.verdict.text}</span>}
      {trial.state === "done" && <span class="quiet"> · click an output or an edge to see its data</span>}
    </p>
  );
}

function rowsOf(frame: Frame): string {
  const rows = Math.max(0, ...frame.nodes.map((node) => node.rows));
  return `processed up to ${rows.toLocaleString("en")} ${rows === 1 ? "row" : "rows"} per node`;
}
