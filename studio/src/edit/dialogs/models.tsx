// Brings a model into the graph: the user chooses a file, its task, and the settings of the nodes around it.

import { useEffect, useState } from "preact/hooks";
import { ask } from "../api";
import { uploadFiles } from "../upload";
import type { Work } from "../work";
import { useAttempt } from "./attempt";
import { Dialog, FileButton, useFocus } from "./dialog";

export interface Places {
  models: { path: string; bytes: number }[];
  folders: { path: string; units: string[] }[];
  labels: string[];
  complete: boolean; // whether all files were seen
}

interface Port {
  name: string;
  dtype: string;
  shape: string;
}

export type Use = "plain" | "classify" | "detect" | "classify_objects";
export type Settings = { [name: string]: unknown };

interface Model {
  path: string;
  engine: string;
  inputs: Port[];
  outputs: Port[];
  uses: Use[];
  ranges: string[];
  guess: Settings & { use: Use; why: string[] };
}

const USES: Record<Use, [string, string]> = {
  classify: ["Classify pictures", "adds decode, resize, scale, and the best class"],
  detect: ["Detect objects", "adds decode, letterbox, scale, and boxes in the picture"],
  classify_objects: ["Classify each object", "cuts the boxes of the detector out, and classifies each"],
  plain: ["Only the model", "adds one node; you connect it"],
};

interface Props {
  work: Work;
  path: string; // a file that is chosen already, or ""
  onAdded: (names: string[]) => void;
  onClose: () => void;
}

export function ModelDialog(props: Props) {
  const { work } = props;
  const [places, setPlaces] = useState<Places | null>(null);
  const [model, setModel] = useState<Model | null>(null);
  const { problem, busy, setBusy, attempt } = useAttempt("looking for models");
  const read = async (path: string) => {
    setBusy(`reading ${path}`);
    setModel(await ask<Model>("model", { text: work.state.text, path }));
  };
  const choose = (path: string) => attempt(`reading ${path}`, () => read(path));
  const upload = (file: File) =>
    attempt(`copying ${file.name}`, async () => {
      const [path] = await uploadFiles([{ file, path: file.name }]);
      await read(path!);
    });
  useEffect(() => {
    void attempt("looking for models", async () => {
      setPlaces(await ask<Places>("places", { text: work.state.text }));
      if (props.path) await read(props.path);
    });
  }, []);
  return (
    <Dialog title={model ? `Bring in ${model.path}` : "Bring in a model"} class="bring-model" onClose={props.onClose}>
      {busy && <p role="status">{busy}…</p>}
      {problem && (
        <p class="problem" role="alert">
          {problem}
        </p>
      )}
      {!model && places && <FileList places={places} onChoose={choose} onUpload={upload} onClose={props.onClose} />}
      {model && places && (
        <ModelForm
          model={model}
          labels={places.labels}
          onBack={() => setModel(null)}
          onAdd={(use, settings) =>
            attempt("adding the model", async () => {
              const found = await work.bring<{ text: string; files: string[]; added: string[] }>("bring", { path: model.path, use, settings });
              if (!found) throw new Error(work.state.problem);
              props.onAdded(found.added);
            })
          }
        />
      )}
    </Dialog>
  );
}

function FileList(props: { places: Places; onChoose: (path: string) => void; onUpload: (file: File) => void; onClose: () => void }) {
  const { models } = props.places;
  const list = useFocus<HTMLDivElement>("button, input");
  return (
    <div ref={list}>
      {!props.places.complete && <p class="quiet">The folder has too many files to see all of them.</p>}
      {models.length ? <p>Models below the folder of the graph:</p> : <p>There is no model below the folder of the graph. Choose a file of your computer; it is copied beside the graph.</p>}
      <ul class="choices">
        {models.map((one) => (
          <li key={one.path}>
            <button type="button" data-model={one.path} onClick={() => props.onChoose(one.path)}>
              <strong>{one.path}</strong> <span class="quiet">{sizeOf(one.bytes)}</span>
            </button>
          </li>
        ))}
      </ul>
      <p class="buttons">
        <FileButton text="Choose a file…" onFiles={([file]) => props.onUpload(file!)} />
        <button type="button" onClick={props.onClose}>
          Cancel
        </button>
      </p>
    </div>
  );
}

function ModelForm(props: { model: Model; labels: string[]; onBack: () => void; onAdd: (use: Use, settings: Settings) => void }) {
  const { model, labels } = props;
  const { use: guessed, why, ...first } = model.guess;
  const [use, setUse] = useState<Use>(model.uses.includes("classify_objects") && guessed === "classify" ? "classify_objects" : guessed);
  const [settings, setSettings] = useState<Settings>({ ...first, colours: first.colours ?? "rgb", range: first.range ?? "unit", layout: first.layout ?? "chw", head: first.head ?? "v8" });
  const set: FieldProps["onSet"] = (name, value) => setSettings((before) => ({ ...before, [name]: value }));
  const hasPicture = use !== "plain";
  const form = useFocus<HTMLFormElement>("input:checked");
  return (
    <form
      ref={form}
      class="run"
      onSubmit={(event) => {
        event.preventDefault();
        props.onAdd(use, settings);
      }}
    >
      <dl class="ports">
        <Ports name="takes" ports={model.inputs} />
        <Ports name="gives" ports={model.outputs} />
      </dl>
      <fieldset class="uses">
        <legend>What it does in the graph</legend>
        {model.uses.map((one) => (
          <label key={one} class="check">
            <input type="radio" name="use" checked={one === use} onChange={() => setUse(one)} /> {USES[one][0]} <span class="quiet">{USES[one][1]}</span>
          </label>
        ))}
      </fieldset>
      {hasPicture && (
        <fieldset class="settings">
          <legend>Pictures as the model expects them</legend>
          <Number name="width" value={settings.width} onSet={set} />
          <Number name="height" value={settings.height} onSet={set} />
          <Select name="colours" value={settings.colours} choices={{ rgb: "RGB", bgr: "BGR", gray: "gray" }} onSet={set} />
          <Select name="layout" value={settings.layout} choices={{ chw: "channels first (chw)", hwc: "channels last (hwc)" }} onSet={set} />
          <Select name="range" value={settings.range} choices={Object.fromEntries(model.ranges.map((one) => [one, RANGES[one] ?? one]))} onSet={set} />
          {use === "detect" && <Select name="head" value={settings.head} choices={HEADS} onSet={set} />}
          {use === "detect" && <Number name="classes" value={settings.classes} onSet={set} />}
          {labels.length > 0 && <Select name="labels" value={settings.labels} choices={{ "": "no names", ...Object.fromEntries(labels.map((path) => [path, path])) }} onSet={set} />}
        </fieldset>
      )}
      <ul class="hints quiet">
        {why.map((reason) => (
          <li key={reason}>{reason}</li>
        ))}
      </ul>
      <p class="buttons">
        <button type="submit" class="primary">
          Add to the graph
        </button>
        <button type="button" onClick={props.onBack}>
          Another file
        </button>
      </p>
    </form>
  );
}

const RANGES: Record<string, string> = { unit: "0 to 1", raw: "0 to 255", imagenet_torch: "ImageNet (PyTorch)", imagenet_tf: "-1 to 1 (TensorFlow)", imagenet_caffe: "ImageNet (Caffe)", clip: "CLIP" };
const HEADS = { v8: "YOLO v8 to v26", v5: "YOLO v3 to v7", x: "YOLOX", rtdetr: "RT-DETR", ssd: "SSD" };

function Ports(props: { name: string; ports: Port[] }) {
  return (
    <div>
      <dt>{props.name}</dt>
      {props.ports.map((port) => (
        <dd key={port.name}>
          {port.name} <span class="quiet">{`${port.dtype} ${port.shape}`}</span>
        </dd>
      ))}
    </div>
  );
}

interface FieldProps {
  name: string;
  value: unknown;
  onSet: (name: string, value: string | number | null) => void;
}

function Number(props: FieldProps) {
  return (
    <label>
      {props.name}
      <input type="number" min={1} max={8192} required value={(props.value as number | null) ?? ""} onInput={(event) => props.onSet(props.name, event.currentTarget.value === "" ? null : event.currentTarget.valueAsNumber)} />
    </label>
  );
}

function Select(props: FieldProps & { choices: Record<string, string> }) {
  return (
    <label>
      {props.name}
      <select value={(props.value as string | null) ?? ""} onChange={(event) => props.onSet(props.name, event.currentTarget.value || null)}>
        {Object.entries(props.choices).map(([value, text]) => (
          <option key={value} value={value}>
            {text}
          </option>
        ))}
      </select>
    </label>
  );
}

function sizeOf(bytes: number): string {
  return bytes < 1e6 ? `${Math.max(1, Math.round(bytes / 1e3))} kB` : `${(bytes / 1e6).toFixed(bytes < 1e8 ? 1 : 0)} MB`;
}
