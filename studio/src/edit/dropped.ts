// Files that are dropped on the page: models and folders of units are brought in, others are samples for a run.

import { folderOfUnits, listDropped, uploadFiles } from "./upload";
import type { Work } from "./work";

interface Takers {
  onModel: (path: string) => void;
  onSamples: (files: File[]) => void;
}

const SAMPLE = /^(image|text|video|audio)\/|json/;

export async function takeDropped(data: DataTransfer, work: Work, takers: Takers): Promise<void> {
  try {
    const files = await listDropped(data);
    if (!files.length) return;
    const isFolder = files.some(({ path }) => path.includes("/"));
    if (!isFolder && files.every(({ file }) => SAMPLE.test(file.type))) return takers.onSamples(files.map(({ file }) => file));
    const paths = await uploadFiles(files);
    const folder = folderOfUnits(paths);
    if (!folder) return takers.onModel(isFolder ? paths[0]!.split("/").slice(0, 2).join("/") : (paths.find((path) => !path.endsWith(".txt")) ?? paths[0]!));
    const found = await work.bring<{ text: string; units: string[] }>("folder", { path: folder });
    if (found) work.notify(`added the units ${found.units.join(", ")}`);
  } catch (error) {
    work.fail((error as Error).message);
  }
}
