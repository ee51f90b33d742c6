// Brings a folder of units into the graph.

import { useEffect, useState } from "preact/hooks";
import { ask } from "../api";
import { folderOfUnits, uploadFiles } from "../upload";
import type { Work } from "../work";
import { useAttempt } from "./attempt";
import { Dialog, FileButton, useFocus } from "./dialog";
import type { Places } from "./models";

export function FolderDialog(props: { work: Work; onClose: () => void }) {
  const { work } = props;
  const [places, setPlaces] = useState<Places | null>(null);
  const { problem, attempt } = useAttempt("");
  const add = async (path: string) => {
    const found = await work.bring<{ text: string; units: string[] }>("folder", { path });
    if (!found) throw new Error(work.state.problem);
    work.notify(`added the folder ${path} with ${found.units.join(", ")}`);
    props.onClose();
  };
  const upload = async (files: File[]) => {
    const folder = folderOfUnits(await uploadFiles(files.map((file) => ({ file, path: file.webkitRelativePath || file.name }))));
    if (!folder) throw new Error("the folder has no unit; expected unit files (NAME.toml with [base])");
    await add(folder);
  };
  useEffect(() => void attempt("looking for units", async () => setPlaces(await ask<Places>("places", { text: work.state.text }))), []);
  return (
    <Dialog title="Bring in a folder of units" onClose={props.onClose}>
      {problem && (
        <p class="problem" role="alert">
          {problem}
        </p>
      )}
      {!places && !problem && <p role="status">looking for units…</p>}
      {places && <FolderList folders={places.folders} onAdd={(path) => void attempt(`adding ${path}`, () => add(path))} onUpload={(files) => void attempt("copying the folder", () => upload(files))} onClose={props.onClose} />}
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
