// Brings a folder of units into the graph.

import { useEffect, useRef, useState } from "preact/hooks";
import { ask } from "../api";
import { folderOfUnits, readFiles } from "../upload";
import type { Work } from "../work";
import { Dialog, FileButton, useFocus } from "./dialog";
import type { Places } from "./models";

export function FolderDialog(props: { work: Work; onClose: () => void }) {
  const { work } = props;
  const [places, setPlaces] = useState<Places | null>(null);
  const [problem, setProblem] = useState("");
  const isBusy = useRef(false);
  const attempt = async (step: () => Promise<void>) => {
    if (isBusy.current) return; // a second click
    isBusy.current = true;
    setProblem("");
    await step().catch((error: Error) => setProblem(error.message));
    isBusy.current = false;
  };
  const add = async (path: string) => {
    const found = await work.bring<{ text: string; units: string[] }>("folder", { path });
    if (!found) return setProblem(work.state.problem);
    work.notify(`added the folder ${path} with ${found.units.join(", ")}`);
    props.onClose();
  };
  const upload = async (files: File[]) => {
    const { paths } = await ask<{ paths: string[] }>("upload", { files: await readFiles(files.map((file) => ({ file, path: file.webkitRelativePath || file.name }))) });
    const folder = folderOfUnits(paths);
    if (!folder) throw new Error("the folder has no unit; expected unit files (NAME.toml with [base])");
    await add(folder);
  };
  useEffect(() => void attempt(async () => setPlaces(await ask<Places>("places", { text: work.state.text }))), []);
  return (
    <Dialog title="Bring in a folder of units" onClose={props.onClose}>
      {problem && (
        <p class="problem" role="alert">
          {problem}
        </p>
      )}
      {!places && !problem && <p role="status">looking for units…</p>}
      {places && <FolderList folders={places.folders} onAdd={(path) => void attempt(() => add(path))} onUpload={(files) => void attempt(() => upload(files))} onClose={props.onClose} />}
    </Dialog>
  );
}

function FolderList(props: { folders: Places["folders"]; onAdd: (path: string) => void; onUpload: (files: File[]) => void; onClose: () => void }) {
  const { folders } = props;
  const list = useFocus<HTMLDivElement>("button, input");
  return (
    <div ref={list}>
      {folders.length ? <p>Folders with units below the folder of the graph:</p> : <p>No other folder with units is below the folder of the graph. Choose one of your computer; it is copied beside the graph.</p>}
      <ul class="choices">
        {folders.map((one) => (
          <li key={one.path}>
            <button type="button" data-folder={one.path} onClick={() => props.onAdd(one.path)}>
              <strong>{one.path}</strong> <span class="quiet">{one.units.join(", ")}</span>
            </button>
          </li>
        ))}
      </ul>
      <p class="buttons">
        <FileButton text="Choose a folder…" isFolder onFiles={props.onUpload} />
        <button type="button" onClick={props.onClose}>
          Cancel
        </button>
      </p>
    </div>
  );
}
