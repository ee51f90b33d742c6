// The command that serves the graph, and a first request.

import { useState } from "preact/hooks";
import { fileName, type Picture } from "../view";
import type { State } from "../state";
import type { Work } from "../work";
import { Dialog } from "./dialog";

export function ServeDialog(props: { state: State; work: Work; onClose: () => void }) {
  const { state, work } = props;
  const name = modelName(state);
  return (
    <Dialog title="Serve the graph" onClose={props.onClose}>
      <p>Run this command where the file is. It serves the graph to HTTP and gRPC clients until Ctrl-C.</p>
      <Command label="command" text={`modelflow serve ${quote(state.file)}`} isFirst />
      <p>A first request, from another terminal:</p>
      <Command label="request" text={requestOf(state.view?.picture ?? null, name)} />
      {work.isChanged && (
        <p class="buttons">
          <span class="problem">The file does not have your last changes yet.</span>
          <button type="button" onClick={() => void work.save()}>
            Save the file
          </button>
        </p>
      )}
      <p class="buttons">
        <button type="button" onClick={props.onClose}>
          Close
        </button>
      </p>
    </Dialog>
  );
}

function Command(props: { label: string; text: string; isFirst?: boolean }) {
  const [state, setState] = useState("");
  const copy = () =>
    navigator.clipboard.writeText(props.text).then(
      () => setState("copied"),
      (error: Error) => setState(`the browser refused: ${error.message}; select the text`),
    );
  return (
    <p class="command">
      <code data-command={props.label}>{props.text}</code>
      <button type="button" class={props.isFirst ? "primary" : ""} autofocus={props.isFirst} aria-label={`Copy the ${props.label}`} onClick={() => void copy()}>
        Copy
      </button>
      <span role="status">{state}</span>
    </p>
  );
}

/** Returns the name that the server gives to the graph: `name` of [flow], else the file's. */
function modelName(state: State): string {
  const written = /^\[flow\][^[]*?^\s*name\s*=\s*["']([\w.-]+)["']/m.exec(state.text)?.[1];
  return written ?? fileName(state.file).replace(/\.\w+$/, "");
}

function requestOf(picture: Picture | null, name: string): string {
  const decodes = picture?.boxes.some((box) => box.unit === "image_decoder");
  const url = quote(`http://127.0.0.1:8501/v2/models/${encodeURIComponent(name)}/generate`);
  if (decodes) return `curl -H 'Content-Type: image/jpeg' --data-binary @picture.jpg ${url}`;
  const inputs = picture?.boxes.filter((box) => box.role === "input").map((box) => `${JSON.stringify(box.name)}: "..."`) ?? [];
  return `curl -H 'Content-Type: application/json' -d ${quote(`{${inputs.join(", ")}}`)} ${url}`;
}

function quote(path: string): string {
  return /^[\w./:@%+=-]+$/.test(path) ? path : `'${path.replace(/'/g, "'\\''")}'`;
}
