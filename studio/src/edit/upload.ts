// Files that the user chooses or drops on the page, as the server takes them.

import { ask } from "./api";

interface Upload {
  name: string; // a relative path
  base64: string;
}

// The server takes requests of 256 MB, and base64 has four letters for three bytes.
const MOST_BYTES = 190e6;

// Hidden files and folders, and caches: parts of a folder that no unit needs.
const LEFT_OUT = /(^|\/)(\.|__pycache__\/)/;

/** Writes files beside the graph, and returns their paths; throws an `Error` with a text for the user. */
export async function uploadFiles(files: { file: File; path: string }[]): Promise<string[]> {
  return (await ask<{ paths: string[] }>("upload", { files: await readFiles(files) })).paths;
}

/** Returns the contents of files; throws an `Error` with a text for the user if they are too large. */
async function readFiles(given: { file: File; path: string }[]): Promise<Upload[]> {
  const files = given.filter(({ path }) => given.length === 1 || !LEFT_OUT.test(path));
  const bytes = files.reduce((sum, { file }) => sum + file.size, 0);
  if (bytes > MOST_BYTES) {
    throw new Error(`the files have ${Math.round(bytes / 1e6)} MB; expected at most ${MOST_BYTES / 1e6} MB. Put them beside the graph file, and choose them in the list`);
  }
  return Promise.all(files.map(async ({ file, path }) => ({ name: path, base64: await encode(file) })));
}

export function encode(file: File): Promise<string> {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(String(reader.result).replace(/^[^,]*,?/, ""));
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(file);
  });
}

/** Returns the folder of all unit files among uploaded files, or "" without unit files. */
export function folderOfUnits(paths: string[]): string {
  const [first, ...others] = paths.filter((path) => path.startsWith("units/") && path.endsWith(".toml")).map((path) => path.split("/").slice(0, -1));
  return (first ?? []).filter((_, place) => others.every((other) => first!.slice(0, place + 1).every((part, at) => part === other[at]))).join("/");
}

/** Returns all files of a drop, with those of dropped folders. Call it while the event is handled. */
export async function listDropped(data: DataTransfer): Promise<{ file: File; path: string }[]> {
  const found = [...data.items].map((item) => {
    const entry = item.webkitGetAsEntry();
    const file = entry ? null : item.getAsFile(); // a file that is not on a disk has no entry
    return entry ? walk(entry) : file ? [{ file, path: file.name }] : [];
  });
  return (await Promise.all(found)).flat();
}

async function walk(entry: FileSystemEntry): Promise<{ file: File; path: string }[]> {
  if (entry.isFile) {
    const file = await new Promise<File>((resolve, reject) => (entry as FileSystemFileEntry).file(resolve, reject));
    return [{ file, path: entry.fullPath.slice(1) }];
  }
  const reader = (entry as FileSystemDirectoryEntry).createReader();
  const found: { file: File; path: string }[] = [];
  for (;;) {
    // A reader gives at most 100 entries a call, and an empty list at the end.
    const some = await new Promise<FileSystemEntry[]>((resolve, reject) => reader.readEntries(resolve, reject));
    if (!some.length) return found;
    found.push(...(await Promise.all(some.map(walk))).flat());
  }
}
